//! Compares the importer with a naive model of its rules: a sequence of random guides with random defects, from
//! text to stored broadcasts. The model implements every rule as a scan of all rows.

use crate::types::Zone;
use proptest::prelude::*;

use super::super::import::parsed_guide::{ChannelMap, ParsedGuide};
use super::super::import::xmltv::{Xmltv, XmltvOptions};
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
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Kept {
    start: i64,
    stop: i64,
    title: String,
    /// Identity of the broadcast, numbered in order of appearance.
    id: usize,
}

/// Returns the rows of a channel that the rules keep, in order.
fn apply_rules(rows: &[&Row]) -> Vec<(i64, i64, String)> {
    let good: Vec<_> = (rows.iter())
        .filter(|row| !row.title.trim().is_empty() && row.stop.is_none_or(|stop| stop > row.start))
        .collect();
    let first: Vec<_> = (0..good.len())
        .filter(|at| {
            good[..*at]
                .iter()
                .all(|before| before.start != good[*at].start)
        })
        .map(|at| good[at])
        .collect();
    let next = |start: i64| {
        first
            .iter()
            .map(|row| row.start)
            .filter(|s| *s > start)
            .min()
    };
    let stopped: Vec<_> = first
        .iter()
        .filter_map(|row| {
            Some((
                row.start,
                row.stop.or(next(row.start))?,
                row.title.to_owned(),
            ))
        })
        .collect();
    let inside = |row: &(i64, i64, String)| stopped.iter().any(|o| o.0 < row.0 && o.1 >= row.1);
    let kept: Vec<_> = stopped.iter().filter(|row| !inside(row)).collect();
    let cut = |row: &(i64, i64, String)| {
        let later = kept.iter().map(|row| row.0).filter(|start| *start > row.0);
        later.min().map_or(row.1, |start| row.1.min(start))
    };
    let mut list: Vec<_> = kept.iter().map(|r| (r.0, cut(r), r.2.clone())).collect();
    list.sort();
    list
}

/// Imports a guide in the model: replaces the span, and keeps the ids of programmes that match.
fn import_guide(existing: &[Kept], rows: &[(i64, i64, String)], next_id: &mut usize) -> Vec<Kept> {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
        return existing.to_vec();
    };
    let (from, to) = (first.0, last.1);
    let touched = |b: &&Kept| b.stop > from && b.start < to;
    let mut list: Vec<Kept> = existing.iter().filter(|b| !touched(b)).cloned().collect();
    let old: Vec<&Kept> = existing.iter().filter(touched).collect();
    let mut of_row: Vec<Option<usize>> = vec![None; rows.len()];
    let mut used = vec![false; old.len()];
    let mut join = |row: usize, at: usize, of_row: &mut Vec<Option<usize>>| {
        if of_row[row].is_none() && !used[at] {
            (of_row[row], used[at]) = (Some(at), true);
        }
    };
    let pairs: Vec<(usize, usize)> = (0..rows.len())
        .flat_map(|row| (0..old.len()).map(move |at| (row, at)))
        .collect();
    for (row, at) in &pairs {
        if rows[*row].0 == old[*at].start && rows[*row].2 == old[*at].title {
            join(*row, *at, &mut of_row);
        }
    }
    let mut moved: Vec<_> = pairs
        .iter()
        .filter(|(row, at)| {
            let (start, stop, title) = &rows[*row];
            let before = old[*at];
            stop - start == before.stop - before.start && *title == before.title
        })
        .map(|(row, at)| ((rows[*row].0 - old[*at].start).abs(), *row, *at))
        .filter(|(distance, _, _)| *distance <= 6)
        .collect();
    moved.sort();
    for (_, row, at) in moved {
        join(row, at, &mut of_row);
    }
    for (row, at) in &pairs {
        if rows[*row].0 == old[*at].start {
            join(*row, *at, &mut of_row);
        }
    }
    for (row, at) in rows.iter().zip(of_row) {
        let id = at.map_or_else(
            || {
                *next_id += 1;
                *next_id
            },
            |at| old[at].id,
        );
        list.push(Kept {
            start: row.0,
            stop: row.1,
            title: row.2.clone(),
            id,
        });
    }
    for (before, used) in old.iter().zip(used) {
        if !used && before.start < from {
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
        let mut next_id = 0;
        for rows in guides {
            schedule.import(draft(&text(&rows)), &options).unwrap();
            for (name, news) in [("news", true), ("film", false)] {
                let of_channel: Vec<&Row> = rows.iter().filter(|row| row.news == news).collect();
                let before = model.entry(name).or_default();
                *before = import_guide(before, &apply_rules(&of_channel), &mut next_id);
                let stored = schedule.broadcasts(&livestream(name)).unwrap();
                let shown: Vec<_> = stored
                    .iter()
                    .map(|b| {
                        let at = |at: UnixSeconds| (at.0 - MIDNIGHT) / 300;
                        (at(b.start), at(b.stop), b.metadata.title.to_string())
                    })
                    .collect();
                let expected: Vec<_> = before.iter().map(|k| (k.start, k.stop, k.title.clone())).collect();
                prop_assert_eq!(shown, expected, "{}", name);
                // A broadcast keeps its id for ever, and no other broadcast gets it.
                for (kept, broadcast) in before.iter().zip(&stored) {
                    let id = numbers.entry(kept.id).or_insert_with(|| broadcast.id.clone());
                    prop_assert_eq!(&*id, &broadcast.id);
                }
                let ids: BTreeSet<_> = stored.iter().map(|b| &b.id).collect();
                prop_assert_eq!(ids.len(), stored.len());
            }
        }
    }
}
