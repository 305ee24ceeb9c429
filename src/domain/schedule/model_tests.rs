//! Compares the importer with a naive model of its rules: a sequence of random guides with random defects, from
//! text to stored broadcasts. What the normaliser does has properties of its own.

use crate::types::Zone;
use proptest::prelude::*;

use super::super::import::Skipped;
use super::super::import::parsed_guide::{ChannelMap, ParsedGuide};
use super::super::import::xmltv::{Xmltv, XmltvOptions};
use super::super::normalise::{KeptRow, normalise};
use super::super::ratings::Ratings;
use super::super::source_spans::ImportPriority;
use super::*;

/// How a time is written.
#[derive(Debug, Clone, Copy)]
enum Clock {
    Utc,
    East,
    West,
    Bare,
}

impl Clock {
    fn write(self, minutes: i64) -> String {
        let (ahead, name) = match self {
            Self::Utc => (0, " +0000"),
            Self::East => (5 * 60 + 30, " +0530"),
            Self::West => (-8 * 60, " PST"),
            Self::Bare => (0, ""),
        };
        let at = MIDNIGHT + (minutes + ahead) * 60;
        let at = chrono::DateTime::from_timestamp(at, 0).unwrap();
        format!("{}{name}", at.format("%Y%m%d%H%M%S"))
    }
}

/// Start, stop and title, in units of five minutes after midnight.
#[derive(Debug, Clone)]
struct Row {
    news: bool,
    start: i64,
    stop: Option<i64>,
    title: &'static str,
    clock: Clock,
}

fn any_row() -> impl Strategy<Value = Row> {
    let clock = prop_oneof![
        Just(Clock::Utc),
        Just(Clock::East),
        Just(Clock::West),
        Just(Clock::Bare)
    ];
    let title = prop::sample::select(vec!["A", "B", "C", "D", "E", "", " "]);
    let length = prop::option::weighted(0.9, -1i64..14);
    (prop::bool::weighted(0.7), 0i64..120, length, title, clock).prop_map(
        |(news, start, length, title, clock)| Row {
            news,
            start,
            stop: length.map(|length| start + length),
            title,
            clock,
        },
    )
}

fn text(rows: &[Row]) -> String {
    let row = |row: &Row| {
        let stop = row.stop.map_or(String::new(), |stop| {
            format!(" stop=\"{}\"", row.clock.write(stop * 5))
        });
        format!(
            "<programme channel=\"{}\" start=\"{}\"{stop}><title>{}</title></programme>",
            if row.news { "news" } else { "film" },
            row.clock.write(row.start * 5),
            row.title
        )
    };
    format!("<tv>{}</tv>", rows.iter().map(row).collect::<String>())
}

/// A broadcast in the model.
/// Returns the rows of a channel as the normaliser has them, which has properties of its own. The end of a last row that the
/// guide does not tell is that of what the model has.
fn normalised(guide: &mut ParsedGuide, name: &str, known: &[Broadcast]) -> Vec<(i64, i64, String)> {
    let Some(channel) = guide.channels.remove(name) else {
        return Vec::new();
    };
    let titles: Vec<_> = (channel.texts.into_iter())
        .map(|(_, metadata)| metadata.title.to_string())
        .collect();
    let (mut skipped, mut repairs) = (Skipped::default(), Repairs::default());
    let rows = normalise(channel.rows, &mut skipped, &mut repairs);
    let at = |at: UnixSeconds| (at.0 - MIDNIGHT) / 300;
    let row = |row: KeptRow<u32>| {
        let (start, mut stop) = (at(row.start), at(row.stop));
        if row.is_estimated {
            let known = || known.iter().map(shown);
            let same = known().find(|b| b.0 == start).map(|b| b.1);
            let next = known().map(|b| b.0).filter(|at| *at > start).min();
            stop = stop.min(same.or(next).unwrap_or(stop));
        }
        (start, stop, titles[row.payload as usize].clone())
    };
    rows.into_iter().map(row).collect()
}

fn shown(broadcast: &Broadcast) -> (i64, i64, String) {
    let at = |at: UnixSeconds| (at.0 - MIDNIGHT) / 300;
    let title = broadcast.metadata.title.to_string();
    (at(broadcast.start), at(broadcast.stop), title)
}

/// Imports rows in the model: they replace what meets their span, and cut what began before it, unless that has moved.
fn import_guide(
    existing: &[Broadcast],
    rows: &[(i64, i64, String)],
    has_moved: impl Fn(&Broadcast) -> bool,
) -> Vec<(i64, i64, String)> {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
        return existing.iter().map(shown).collect();
    };
    let (from, to) = (first.0, last.1);
    let mut list = rows.to_vec();
    for old in existing {
        let (start, stop, title) = shown(old);
        if stop <= from || start >= to {
            list.push((start, stop, title));
        } else if start < from && !has_moved(old) {
            list.push((start, from, title));
        }
    }
    list.sort();
    list
}

fn draft(text: &str) -> ParsedGuide {
    let options = XmltvOptions {
        zone: Zone::utc(),
        ignore_offsets: false,
        languages: Vec::new(),
        ratings: Arc::new(Ratings::built_in()),
        rating_system: None,
    };
    ParsedGuide::read(
        &mut Xmltv::new(text.as_bytes(), options),
        &ChannelMap::new(),
    )
    .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_importer_agrees_with_the_naive_model(
        guides in prop::collection::vec(prop::collection::vec(any_row(), 0..40), 1..5)
    ) {
        let schedule = open(in_memory(), &two_channels());
        let options = ImportOptions {
            priority: ImportPriority::default(),
            dry_run: false,
            accept: true,
            now: NOW,
            retention_days: 30,
        };
        let mut titles: BTreeMap<BroadcastId, String> = BTreeMap::new();
        for rows in guides {
            let names = ["news", "film"];
            let before = names.map(|name| schedule.broadcasts(&livestream(name)).unwrap());
            let mut guide = draft(&text(&rows));
            schedule.import(draft(&text(&rows)), &options).unwrap();
            for (name, before) in names.iter().zip(&before) {
                let stored = schedule.broadcasts(&livestream(name)).unwrap();
                let rows = normalised(&mut guide, name, before);
                let has_moved = |old: &Broadcast| {
                    let is_row = |new: &&Broadcast| new.id == old.id && rows.contains(&shown(new));
                    stored.iter().find(is_row).is_some_and(|new| new.start != old.start)
                };
                let expected = import_guide(before, &rows, has_moved);
                let all: Vec<_> = stored.iter().map(shown).collect();
                prop_assert_eq!(all, expected, "{}", name);
                // The same start and title is the same broadcast, and an id never goes to another title.
                for new in &stored {
                    let old = before.iter().find(|old| old.start == new.start && old.metadata.title == new.metadata.title);
                    prop_assert!(old.is_none_or(|old| old.id == new.id));
                    let title = new.metadata.title.to_string();
                    let known = titles.entry(new.id.clone()).or_insert_with(|| title.clone());
                    prop_assert_eq!(&*known, &title);
                }
                let ids: BTreeSet<_> = stored.iter().map(|b| &b.id).collect();
                prop_assert_eq!(ids.len(), stored.len());
            }
        }
    }
}
