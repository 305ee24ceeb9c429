use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use super::*;
use crate::schedule::import::decompress::unpack;
use crate::schedule::import::xmltv::{Xmltv, XmltvOptions};
use crate::schedule::normalise::{KeptRow, normalise};
use crate::schedule::ratings::Ratings;

fn draft_of(input: impl Read, map: &ChannelMap) -> Result<ParsedGuide, GuideError> {
    let options = XmltvOptions {
        zone: playgate_types::Zone::utc(),
        ignore_offsets: false,
        languages: Vec::new(),
        ratings: Arc::new(Ratings::built_in()),
        rating_system: None,
    };
    let mut source = Xmltv::new(unpack(input)?, options);
    ParsedGuide::read(&mut source, map)
}

#[test]
fn channels_are_mapped_and_joined() {
    let text = r#"<tv>
        <channel id="a"><display-name>A</display-name></channel>
        <channel id="a"><display-name>again</display-name><icon src="i"/></channel>
        <channel id="x/y"/>
        <programme channel="a" start="20260101"><title>1</title></programme>
        <programme channel="b" start="20260102"><title>2</title></programme>
        <programme channel="x/y" start="20260102"><title>3</title></programme>
        <programme channel="z" start="?"><title>4</title></programme></tv>"#;
    let map = ChannelMap::from([("b".to_owned(), "a".into())]);
    let draft = draft_of(text.as_bytes(), &map).unwrap();
    assert_eq!(draft.programmes, 4);
    assert_eq!(draft.channels.len(), 1);
    let channel = &draft.channels["a"];
    assert_eq!(channel.name.as_deref(), Some("A"));
    assert_eq!(channel.icon.as_deref(), Some("i"));
    assert_eq!(channel.rows.len(), 2);
    assert_eq!(draft.skipped.count(Skip::BadChannel), 2);
    assert_eq!(draft.skipped.count(Skip::BadTime), 1);
    let texts = draft.channels.into_values().flat_map(|c| c.texts);
    let titles: Vec<_> = texts.map(|(_, metadata)| metadata.title).collect();
    assert_eq!(titles, ["1".into(), "2".into()]);
}

/// Reads a real guide from next to the repository, or returns `None` with a message.
fn real_guide(name: &str) -> Option<Vec<u8>> {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let next_to_it = root.join("../shared");
    let folder = option_env!("PLAYGATE_SHARED").map_or(next_to_it, PathBuf::from);
    let path = folder.join("data/epg").join(name);
    if let Ok(bytes) = std::fs::read(&path) {
        return Some(bytes);
    }
    assert!(
        option_env!("CI") != Some("true"),
        "{} is missing",
        path.display()
    );
    println!("skipped: {} is not there", path.display());
    None
}

/// A row as a naive parser sees it, which only searches the text for `<programme `.
#[derive(Clone)]
struct Naive {
    line: u64,
    start: i64,
    stop: i64,
    title: String,
}

/// Parses `YYYYMMDDhhmmss +hhmm`, counting day by day.
fn naive_time(text: &str) -> i64 {
    let number = |from: usize, to: usize| text[from..to].parse::<i64>().unwrap();
    let (year, month, day) = (number(0, 4), number(4, 6), number(6, 8));
    let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let lengths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut days = (1970..year).map(|y| 365 + i64::from(leap(y))).sum::<i64>();
    for (at, length) in (1..month).zip(lengths) {
        days += length + i64::from(at == 2 && leap(year));
    }
    let clock = number(8, 10) * 3600 + number(10, 12) * 60 + number(12, 14);
    let zone = number(16, 18) * 3600 + number(18, 20) * 60;
    let east = if &text[15..16] == "-" { -zone } else { zone };
    (days + day - 1) * 86_400 + clock - east
}

fn naive_rows(text: &str) -> BTreeMap<String, Vec<Naive>> {
    let mut channels: BTreeMap<String, Vec<Naive>> = BTreeMap::new();
    let (mut line, mut seen) = (1, 0);
    for (at, _) in text.match_indices("<programme ") {
        line += text[seen..at].matches('\n').count() as u64;
        seen = at;
        let element = &text[at..at + text[at..].find("</programme>").unwrap()];
        let head = &element[..element.find('>').unwrap()];
        let attribute = |name: &str| {
            let from = head.find(&format!("{name}=\"")).unwrap() + name.len() + 2;
            &head[from..from + head[from..].find('"').unwrap()]
        };
        let from = element.find("<title").unwrap();
        let from = from + element[from..].find('>').unwrap() + 1;
        let title = &element[from..from + element[from..].find('<').unwrap()];
        let title = title
            .replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&quot;", "\"")
            .replace("&apos;", "'")
            .replace("&amp;", "&");
        let row = Naive {
            line,
            start: naive_time(attribute("start")),
            stop: naive_time(attribute("stop")),
            title: title.trim().to_owned(),
        };
        channels
            .entry(attribute("channel").to_owned())
            .or_default()
            .push(row);
    }
    channels
}

/// Applies the import rules by scanning all rows: duplicates, then contained rows, then cuts.
fn naive_order(rows: &[Naive]) -> (Vec<Naive>, [u64; 3]) {
    let mut skipped = [0; 3];
    let good: Vec<_> = rows
        .iter()
        .filter(|row| {
            skipped[0] += u64::from(row.title.is_empty());
            !row.title.is_empty()
        })
        .cloned()
        .collect();
    let first: Vec<_> = good
        .iter()
        .enumerate()
        .filter(|(at, row)| {
            let repeats = good[..*at].iter().any(|other| other.start == row.start);
            skipped[1] += u64::from(repeats);
            !repeats
        })
        .map(|(_, row)| row.clone())
        .collect();
    let mut kept: Vec<_> = first
        .iter()
        .filter(|row| {
            let inside = |other: &&Naive| other.start < row.start && row.stop <= other.stop;
            let contained = first.iter().any(|other| inside(&other));
            skipped[2] += u64::from(contained);
            !contained
        })
        .cloned()
        .collect();
    kept.sort_by_key(|row| row.start);
    for at in 1..kept.len() {
        kept[at - 1].stop = kept[at - 1].stop.min(kept[at].start);
    }
    (kept, skipped)
}

fn compare(name: &str, channels: usize, programmes: u64) {
    let Some(packed) = real_guide(name) else {
        return;
    };
    let draft = draft_of(&packed[..], &ChannelMap::new()).unwrap();
    let mut text = String::new();
    unpack(&packed[..])
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    let naive = naive_rows(&text);
    assert_eq!(draft.channels.len(), channels);
    assert_eq!(draft.programmes, programmes);
    assert_eq!(draft.skipped.total(), 0);
    let mut expected_skips = [0; 3];
    let mut skipped = Skipped::default();
    let mut cut = 0;
    for (id, mut channel) in draft.channels {
        let rows = std::mem::take(&mut channel.rows);
        let given: HashMap<u64, Option<UnixSeconds>> =
            rows.iter().map(|row| (row.line, row.stop)).collect();
        let kept: Vec<KeptRow<u32>> = normalise(rows, &mut skipped, &mut Repairs::default());
        cut += kept
            .iter()
            .filter(|row| given[&row.line] != Some(row.stop))
            .count();
        let none = Vec::new();
        let (expected, skips) = naive_order(naive.get(id.as_str()).unwrap_or(&none));
        (0..3).for_each(|at| expected_skips[at] += skips[at]);
        assert_eq!(kept.len(), expected.len(), "{id}");
        let texts: Vec<_> = channel.texts.into_iter().collect();
        for (row, expected) in kept.iter().zip(&expected) {
            let (_, metadata) = &texts[row.payload as usize];
            assert_eq!(
                (row.line, row.start.0, row.stop.0, &*metadata.title),
                (
                    expected.line,
                    expected.start,
                    expected.stop,
                    &*expected.title
                )
            );
        }
    }
    let kinds = [Skip::EmptyTitle, Skip::Duplicate, Skip::Contained];
    assert_eq!(kinds.map(|kind| skipped.count(kind)), expected_skips);
    println!("{name}: skipped {expected_skips:?}, cut {cut}");
}

#[test]
fn a_guide_of_new_zealand_is_read_like_the_naive_parser_does() {
    compare("nz_epg.xml.gz", 45, 5_510);
}

#[test]
fn a_guide_of_singapore_is_read_like_the_naive_parser_does() {
    compare("Singtel_epg.xml.gz", 124, 30_341);
}
