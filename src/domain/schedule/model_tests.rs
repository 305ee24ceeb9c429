//! Compares the importer with a naive model of its rules: a sequence of random guides with random defects, from
//! text to stored broadcasts with their ids. What the normaliser does has properties of its own.

use playgate_types::Zone;
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
    WithoutZone,
}

impl Clock {
    fn write(self, minutes: i64) -> String {
        let (ahead, name) = match self {
            Self::Utc => (0, " +0000"),
            Self::East => (5 * 60 + 30, " +0530"),
            Self::West => (-8 * 60, " PST"),
            Self::WithoutZone => (0, ""),
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
        Just(Clock::WithoutZone)
    ];
    let title = prop::sample::select(vec!["A", "B", "C", "News", "NEWS!", "News at six", "", " "]);
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
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Kept {
    start: i64,
    stop: i64,
    title: String,
    /// Identity of the broadcast, numbered in order of appearance.
    id: usize,
}

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

/// The titles of this test without case and signs.
fn folded(title: &str) -> String {
    title.to_lowercase().replace('!', "")
}

/// Whether one title is the other one with more words. A single letter says too little.
fn is_corrected(one: &str, other: &str) -> bool {
    let (one, other) = (folded(one), folded(other));
    one.len() >= 4 && other.len() >= 4 && (one.starts_with(&other) || other.starts_with(&one))
}

/// What is left of each title: in order if the numbers are equal, else the nearest first, in the order of time.
fn align(old: &[&Kept], rows: &[(i64, i64, String)], of_row: &mut [Option<usize>]) {
    let distance = |(row, at): (usize, usize)| (rows[row].0 - old[at].start).abs();
    let titles: BTreeSet<String> = rows.iter().map(|row| folded(&row.2)).collect();
    for title in titles {
        let left: Vec<usize> = (0..rows.len())
            .filter(|row| of_row[*row].is_none() && folded(&rows[*row].2) == title)
            .collect();
        let known: Vec<usize> = (0..old.len())
            .filter(|at| !of_row.contains(&Some(*at)) && folded(&old[*at].title) == title)
            .collect();
        let limit = if known.len() == 1 { 144 } else { 72 };
        let in_order: Vec<_> = left.iter().copied().zip(known.iter().copied()).collect();
        if left.len() == known.len() && in_order.iter().all(|pair| distance(*pair) <= limit) {
            in_order
                .into_iter()
                .for_each(|(row, at)| of_row[row] = Some(at));
            continue;
        }
        // Eight broadcasts in each direction are compared.
        let is_near = |row: usize, at: usize| {
            let before = known.iter().filter(|at| old[**at].start < rows[row].0);
            let (middle, position) = (before.count(), known.iter().position(|known| *known == at));
            position.is_some_and(|position| position + 8 >= middle && position < middle + 8)
        };
        let pairs = left
            .iter()
            .flat_map(|row| known.iter().map(|at| (*row, *at)));
        let mut near: Vec<_> = pairs
            .filter(|(row, at)| is_near(*row, *at))
            .map(|pair| (distance(pair), pair))
            .filter(|(distance, _)| *distance <= 72)
            .collect();
        near.sort();
        let mut joined: Vec<(usize, usize)> = Vec::new();
        for (_, (row, at)) in near {
            let crosses = |(r, a): &(usize, usize)| (*r < row) != (*a < at);
            let is_free = of_row[row].is_none() && !of_row.contains(&Some(at));
            if is_free && !joined.iter().any(crosses) {
                of_row[row] = Some(at);
                joined.push((row, at));
            }
        }
    }
}

/// Finds the broadcast whose id each row gets. Every rule is a scan of all pairs that are left.
fn matches(old: &[&Kept], rows: &[(i64, i64, String)]) -> Vec<Option<usize>> {
    let mut of_row: Vec<Option<usize>> = vec![None; rows.len()];
    let all: Vec<(usize, usize)> = (0..rows.len())
        .flat_map(|row| (0..old.len()).map(move |at| (row, at)))
        .collect();
    let join = |of_row: &mut Vec<Option<usize>>, (row, at): (usize, usize)| {
        if of_row[row].is_none() && !of_row.contains(&Some(at)) {
            of_row[row] = Some(at);
        }
    };
    let distance = |(row, at): (usize, usize)| (rows[row].0 - old[at].start).abs();
    let length = |start: i64, stop: i64| stop - start;
    // The same start and title.
    for (row, at) in &all {
        if rows[*row].0 == old[*at].start && rows[*row].2 == old[*at].title {
            join(&mut of_row, (*row, *at));
        }
    }
    // The same title and length within half an hour, the nearest first.
    let mut moved: Vec<_> = all
        .iter()
        .filter(|(row, at)| {
            let (start, stop, title) = &rows[*row];
            *title == old[*at].title
                && length(*start, *stop) == length(old[*at].start, old[*at].stop)
        })
        .map(|pair| (distance(*pair), *pair))
        .filter(|(distance, _)| *distance <= 6)
        .collect();
    moved.sort();
    for (_, pair) in moved {
        join(&mut of_row, pair);
    }
    // A corrected title at the same time.
    for (row, at) in &all {
        let ((start, stop, title), known) = (&rows[*row], old[*at]);
        let is_same = folded(title) == folded(&known.title);
        let is_part = *stop == known.stop && is_corrected(title, &known.title);
        if *start == known.start && (is_same || is_part) {
            join(&mut of_row, (*row, *at));
        }
    }
    align(old, rows, &mut of_row);
    of_row
}

/// Imports rows in the model: they replace what meets their span, and cut what began before it, unless that has moved.
fn import_guide(existing: &[Kept], rows: &[(i64, i64, String)], next_id: &mut usize) -> Vec<Kept> {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
        return existing.to_vec();
    };
    let (from, to) = (first.0, last.1);
    let touched = |b: &&Kept| b.stop > from && b.start < to;
    let mut list: Vec<Kept> = existing.iter().filter(|b| !touched(b)).cloned().collect();
    let old: Vec<&Kept> = existing.iter().filter(touched).collect();
    let of_row = matches(&old, rows);
    for ((start, stop, title), at) in rows.iter().zip(&of_row) {
        let id = at.map_or_else(
            || {
                *next_id += 1;
                *next_id
            },
            |at| old[at].id,
        );
        list.push(Kept {
            start: *start,
            stop: *stop,
            title: title.clone(),
            id,
        });
    }
    for (at, before) in old.iter().enumerate() {
        if !of_row.contains(&Some(at)) && before.start < from {
            list.push(Kept {
                stop: from,
                ..(*before).clone()
            });
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
        let mut model: BTreeMap<&str, Vec<Kept>> = BTreeMap::new();
        let mut numbers: BTreeMap<usize, BroadcastId> = BTreeMap::new();
        let mut titles: BTreeMap<BroadcastId, String> = BTreeMap::new();
        let mut next_id = 0;
        for rows in guides {
            let names = ["news", "film"];
            let before = names.map(|name| schedule.broadcasts(&livestream(name)).unwrap());
            let mut guide = draft(&text(&rows));
            schedule.import(draft(&text(&rows)), &options).unwrap();
            for (name, before) in names.into_iter().zip(&before) {
                let rows = normalised(&mut guide, name, before);
                let kept = model.entry(name).or_default();
                *kept = import_guide(kept, &rows, &mut next_id);
                let stored = schedule.broadcasts(&livestream(name)).unwrap();
                let all: Vec<_> = stored.iter().map(shown).collect();
                let expected: Vec<_> = kept.iter().map(|k| (k.start, k.stop, k.title.clone())).collect();
                prop_assert_eq!(all, expected, "{}", name);
                // A broadcast keeps its id for ever, and no other broadcast gets it.
                for (kept, new) in kept.iter().zip(&stored) {
                    let id = numbers.entry(kept.id).or_insert_with(|| new.id.clone());
                    prop_assert_eq!(&*id, &new.id, "{} {:?}", name, kept);
                    // An id never goes to another title, but to a correction of it.
                    let title = titles.entry(new.id.clone()).or_insert_with(|| kept.title.clone());
                    let is_same = folded(title) == folded(&kept.title) || is_corrected(title, &kept.title);
                    prop_assert!(is_same, "{} and {}", title, kept.title);
                }
                let ids: BTreeSet<_> = stored.iter().map(|b| &b.id).collect();
                prop_assert_eq!(ids.len(), stored.len());
            }
        }
    }
}
