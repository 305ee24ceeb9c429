//! Normalises the rows of a channel: sorts them, repairs their ends, and removes duplicates and overlaps. Every dropped row
//! is counted by kind, every repaired one as well. The order of the rules is significant.

use std::collections::BTreeMap;

use super::import::repairs::{Repair, Repairs};
use super::import::{GuideProblem, Skip, Skipped};
use playgate_types::UnixSeconds;
use playgate_types::time::{DAY, HOUR};

/// A row whose stop is missing ends where the next one starts, if that is within this many seconds: a night without
/// programmes.
const UNTIL_NEXT_MAX: i64 = 12 * HOUR;
/// Else it is as long as a long film with its advertisements.
const WITHOUT_NEXT: i64 = 6 * HOUR;
/// The last row of a channel, if its stop is missing. The next guide, which usually begins there, cuts it.
const LAST: i64 = 3 * HOUR;
/// A row that is so long and has others inside is a placeholder, such as "No information": no programme is that long.
const PLACEHOLDER: i64 = 12 * HOUR;
/// A row with so many others inside is one too, whatever its length.
const INSIDE_MAX: usize = 3;
/// So many rows of a channel with the same stop show that the stop is not theirs.
const SAME_STOP: usize = 3;
/// Rows that are looked at behind each row, so that a guide of overlaps takes no longer than another one.
const LOOK_AHEAD: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row<T> {
    pub line: u64,
    pub start: UnixSeconds,
    pub stop: Option<UnixSeconds>,
    /// A hash, to compare copies; 0 without a title.
    pub title: u32,
    /// Of two copies the one that says more is kept.
    pub fullness: u16,
    pub payload: T,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeptRow<T> {
    pub line: u64,
    /// Later than the start of the previous row.
    pub start: UnixSeconds,
    /// Later than its start, and not after the start of the next row.
    pub stop: UnixSeconds,
    /// Whether nothing in the guide tells the stop. Only of the last row.
    pub is_estimated: bool,
    pub payload: T,
}

/// A placeholder whose end is not reached yet.
struct Around<T> {
    line: u64,
    stop: UnixSeconds,
    payload: T,
}

pub(crate) fn normalise<T: Copy>(
    rows: Vec<Row<T>>,
    skipped: &mut Skipped,
    repairs: &mut Repairs,
) -> Vec<KeptRow<T>> {
    let mut rows = sorted(rows, skipped, repairs);
    repair_stops(&mut rows, repairs);
    let mut kept: Vec<KeptRow<T>> = Vec::with_capacity(rows.len());
    let placeholders = placeholders(&rows);
    let mut around: Option<Around<T>> = None;
    let mut is_last_around = false;
    let mut rest = rows.into_iter().zip(placeholders).peekable();
    while let Some((row, is_placeholder)) = rest.next() {
        let next = rest.peek().map(|(next, _)| next.start);
        let stop = row.stop.unwrap_or_else(|| {
            let repair = if next.is_some() {
                Repair::Stop
            } else {
                Repair::LastStop
            };
            repairs.add(repair, row.line);
            estimated(row.start, next)
        });
        if let Some(last) = kept.last_mut() {
            // Only the last row has to be checked: it ends later than all rows before it.
            if stop <= last.stop && !is_last_around {
                skipped.add(GuideProblem::new(row.line, Skip::Contained));
                continue;
            }
            if is_last_around && row.start < last.stop {
                repairs.add(Repair::LongStop, last.line);
            }
            // An overlap ends at the later row, which is usually the correction.
            last.stop = last.stop.min(row.start);
        }
        fill(&mut kept, around.as_ref(), row.start);
        around = around.filter(|around| around.stop > row.start);
        is_last_around = is_placeholder && around.is_none();
        if is_last_around {
            around = Some(Around {
                line: row.line,
                stop,
                payload: row.payload,
            });
        }
        kept.push(KeptRow {
            line: row.line,
            start: row.start,
            stop,
            is_estimated: row.stop.is_none() && next.is_none(),
            payload: row.payload,
        });
    }
    fill(&mut kept, around.as_ref(), UnixSeconds(i64::MAX));
    kept
}

/// Fills the hole up to the next row with the placeholder around it.
fn fill<T: Copy>(kept: &mut Vec<KeptRow<T>>, around: Option<&Around<T>>, until: UnixSeconds) {
    let (Some(around), Some(last)) = (around, kept.last()) else {
        return;
    };
    let (start, stop) = (last.stop, around.stop.min(until));
    if start < stop {
        kept.push(KeptRow {
            line: around.line,
            start,
            stop,
            is_estimated: false,
            payload: around.payload,
        });
    }
}

/// The usable rows by their start, without copies.
fn sorted<T>(mut rows: Vec<Row<T>>, skipped: &mut Skipped, repairs: &mut Repairs) -> Vec<Row<T>> {
    // Must come first: an unusable row must not end or cut another one.
    rows.retain(|row| {
        if row.title == 0 {
            skipped.add(GuideProblem::new(row.line, Skip::EmptyTitle));
        }
        row.title != 0
    });
    // Stable sort: the order of the guide breaks ties.
    rows.sort_by_key(|row| row.start);
    rows.dedup_by(|later, earlier| {
        let same = later.start == earlier.start;
        if same {
            if later.title == earlier.title && later.fullness > earlier.fullness {
                // Its texts are better; the end of the first row stays, unless it has none.
                std::mem::swap(&mut later.payload, &mut earlier.payload);
                std::mem::swap(&mut later.line, &mut earlier.line);
                std::mem::swap(&mut later.fullness, &mut earlier.fullness);
                repairs.add(Repair::Copy, earlier.line);
            }
            earlier.stop = earlier.stop.or(later.stop);
            skipped.add(GuideProblem::new(later.line, Skip::Duplicate));
        }
        same
    });
    rows
}

/// Corrects stops that cannot be meant, and removes those that only the next row can give.
fn repair_stops<T>(rows: &mut [Row<T>], repairs: &mut Repairs) {
    let mut stops: Vec<UnixSeconds> = rows.iter().filter_map(|row| row.stop).collect();
    stops.sort_unstable();
    let shared = |stop: UnixSeconds| {
        let from = stops.partition_point(|known| *known < stop);
        stops.partition_point(|known| *known <= stop) - from >= SAME_STOP
    };
    for row in rows.iter_mut() {
        let Some(stop) = row.stop else {
            continue;
        };
        if stop <= row.start {
            // The date of a stop at midnight or later was not counted on.
            let next_day = stop + DAY;
            let fits = next_day > row.start && next_day.since(row.start) < PLACEHOLDER;
            row.stop = fits.then_some(next_day);
            if fits {
                repairs.add(Repair::Stop, row.line);
            }
        }
    }
    // All programmes of a day end at its last second: each ends where the next of them starts. Another row between two
    // of them is inside of the first one, as usual, so that no hole is left.
    let mut next: BTreeMap<UnixSeconds, UnixSeconds> = BTreeMap::new();
    for row in rows.iter_mut().rev() {
        let Some(stop) = row.stop.filter(|stop| shared(*stop)) else {
            continue;
        };
        if let Some(next) = next.insert(stop, row.start) {
            row.stop = Some(next);
            repairs.add(Repair::LongStop, row.line);
        }
    }
}

/// Which rows are placeholders around others.
fn placeholders<T>(rows: &[Row<T>]) -> Vec<bool> {
    let is_placeholder = |(at, row): (usize, &Row<T>)| {
        let Some(stop) = row.stop else {
            return false;
        };
        let behind = rows.get(at + 1..).unwrap_or_default().iter();
        let behind = behind.take(LOOK_AHEAD).take_while(|next| next.start < stop);
        let inside = behind.filter(|next| next.stop.unwrap_or(next.start) <= stop);
        let enough = match stop.since(row.start) >= PLACEHOLDER {
            true => 1,
            false => INSIDE_MAX,
        };
        inside.take(enough).count() == enough
    };
    rows.iter().enumerate().map(is_placeholder).collect()
}

fn estimated(start: UnixSeconds, next: Option<UnixSeconds>) -> UnixSeconds {
    match next {
        Some(next) if next.since(start) <= UNTIL_NEXT_MAX => next,
        Some(_) => start + WITHOUT_NEXT,
        None => start + LAST,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Parses rows of the form `start-stop` or `start-`. A leading `!` removes the title.
    fn rows(text: &str) -> Vec<Row<usize>> {
        text.split_whitespace()
            .enumerate()
            .map(|(at, row)| {
                let (start, stop) = row.trim_start_matches('!').split_once('-').unwrap();
                Row {
                    line: at as u64 + 1,
                    start: UnixSeconds(start.parse().unwrap()),
                    stop: stop.parse().ok().map(UnixSeconds),
                    title: if row.starts_with('!') {
                        0
                    } else {
                        1 + u32::try_from(at).unwrap()
                    },
                    fullness: 0,
                    payload: at,
                }
            })
            .collect()
    }

    fn shown(kept: &[KeptRow<usize>]) -> String {
        let one = |row: &KeptRow<usize>| format!("{}-{}", row.start, row.stop);
        kept.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn golden_examples() {
        for (given, expected, skips) in [
            ("", "", ""),
            ("0-10 10-20", "0-10 10-20", ""),
            ("10-20 0-10", "0-10 10-20", ""),
            ("0-10 15-20", "0-10 15-20", ""),
            ("!0-10 10-20", "10-20", "emptyTitle:1"),
            ("0-10 0-12 0-8", "0-10", "duplicate:2,3"),
            ("0- 10-20", "0-10 10-20", "stop:1"),
            ("0-100 10-50", "0-100", "contained:2"),
            ("0-100 10-100", "0-100", "contained:2"),
            ("0-100 10-110", "0-10 10-110", ""),
            ("0-100 10-110 20-105", "0-10 10-110", "contained:3"),
            ("0-100 10-50 20-120", "0-20 20-120", "contained:2"),
            // A missing stop becomes the start of the next row, even if that row is dropped later.
            (
                "0-100 10- 20-50 90-120",
                "0-90 90-120",
                "contained:2,3 stop:2",
            ),
            ("0- 0-5 7-9", "0-5 7-9", "duplicate:2"),
            ("!0- 0-5", "0-5", "emptyTitle:1"),
            // The end of the last row is estimated.
            ("0-10 10-", "0-10 10-10810", "lastStop:2"),
            ("0-", "0-10800", "lastStop:1"),
            // The next row is days away.
            ("0- 300000-300001", "0-21600 300000-300001", "stop:1"),
            ("0- 43200-43201", "0-43200 43200-43201", "stop:1"),
            // The stop is on the day before, or no stop at all.
            ("86220-0 86400-90000", "86220-86400 86400-90000", "stop:1"),
            ("86220-0", "86220-86400", "stop:1"),
            ("5-5 7-8", "5-7 7-8", "stop:1"),
            (
                "100000-6 100007-100008",
                "100000-100007 100007-100008",
                "stop:1",
            ),
            // One stop for all.
            ("0-99 10-99 20-99", "0-10 10-20 20-99", "longStop:2,1"),
            ("0-99 10-99", "0-99", "contained:2"),
            // A placeholder of a day, and one with many inside.
            (
                "0-86400 100-200 200-400",
                "0-100 100-200 200-400 400-86400",
                "longStop:1",
            ),
            (
                "0-99 10-20 30-40 50-60",
                "0-10 10-20 20-30 30-40 40-50 50-60 60-99",
                "longStop:1",
            ),
            ("0-86400 100-90000", "0-100 100-90000", ""),
        ] {
            let mut skipped = Skipped::default();
            let mut repairs = Repairs::default();
            let kept = normalise(rows(given), &mut skipped, &mut repairs);
            assert_eq!(shown(&kept), expected, "{given}");
            let of = |kind: &str, lines: Vec<u64>| {
                let lines: Vec<_> = lines.iter().map(u64::to_string).collect();
                format!("{kind}:{}", lines.join(","))
            };
            let skipped = skipped
                .iter()
                .map(|(kind, rows)| of(kind.as_str(), rows.lines().collect()));
            let repaired = repairs
                .iter()
                .map(|(kind, rows)| of(kind.as_str(), rows.lines.clone()));
            let seen: Vec<_> = skipped.chain(repaired).collect();
            assert_eq!(seen.join(" "), skips, "{given}");
        }
    }

    prop_compose! {
        fn any_row()(start in 0i64..60, length in -2i64..20, stops in prop::bool::weighted(0.9),
                     titled in prop::bool::weighted(0.95)) -> (i64, Option<i64>, bool) {
            (start, stops.then_some(start + length), titled)
        }
    }

    proptest! {
        #[test]
        fn order_without_overlap(given in prop::collection::vec(any_row(), 0..40)) {
            let rows: Vec<_> = given.iter().enumerate().map(|(at, (start, stop, titled))| Row {
                line: at as u64 + 1,
                start: UnixSeconds(*start),
                stop: stop.map(UnixSeconds),
                title: if *titled { 1 + u32::try_from(at).unwrap() } else { 0 },
                fullness: 0,
                payload: at,
            }).collect();
            let mut skipped = Skipped::default();
            let kept = normalise(rows.clone(), &mut skipped, &mut Repairs::default());
            // Every row is either kept or counted as skipped. A placeholder may be kept in several parts.
            let parts: std::collections::HashSet<_> = kept.iter().map(|row| row.payload).collect();
            prop_assert_eq!(parts.len() as u64 + skipped.total(), rows.len() as u64);
            for row in &kept {
                prop_assert!(row.start < row.stop);
                let given = &rows[row.payload];
                prop_assert!(row.start >= given.start);
                let is_stop = given.stop.filter(|stop| *stop > given.start);
                prop_assert!(is_stop.is_none_or(|stop| row.stop <= stop));
            }
            for pair in kept.windows(2) {
                prop_assert!(pair[0].stop <= pair[1].start);
                prop_assert!(pair[0].start < pair[1].start);
            }
            // Every instant that the original span of a kept row covers is still covered.
            for row in &kept {
                // Unless the stop is one for all, which is not theirs.
                let shares = |stop| rows.iter().filter(|row| row.stop == Some(stop)).count() >= SAME_STOP;
                if let Some(stop) = rows[row.payload].stop.filter(|stop| !shares(*stop)) {
                    for instant in row.start.0..stop.0 {
                        let covered = |k: &KeptRow<_>| k.start.0 <= instant && instant < k.stop.0;
                        prop_assert!(kept.iter().any(covered));
                    }
                }
            }
            // Normalising is idempotent.
            let again = kept.iter().map(|row| Row {
                line: row.line, start: row.start, stop: Some(row.stop), title: 1,
                fullness: 0, payload: row.payload,
            }).collect();
            let mut none = Skipped::default();
            let twice = normalise(again, &mut none, &mut Repairs::default());
            prop_assert_eq!(shown(&twice), shown(&kept));
            prop_assert_eq!(none.total(), 0);
        }
    }

    #[test]
    fn of_two_copies_the_fuller_one_is_kept() {
        let row = |line, title, fullness, stop: Option<i64>| Row {
            line,
            start: UnixSeconds(0),
            stop: stop.map(UnixSeconds),
            title,
            fullness,
            payload: line,
        };
        for (rows, payload, stop) in [
            ([row(1, 7, 0, Some(10)), row(2, 7, 5, Some(20))], 2, 10),
            ([row(1, 7, 5, Some(10)), row(2, 7, 5, Some(20))], 1, 10),
            ([row(1, 7, 0, None), row(2, 7, 5, Some(20))], 2, 20),
            // Another programme at the same time: the first wins.
            ([row(1, 7, 0, Some(10)), row(2, 8, 5, Some(20))], 1, 10),
        ] {
            let (mut skipped, mut repairs) = (Skipped::default(), Repairs::default());
            let kept = normalise(rows.to_vec(), &mut skipped, &mut repairs);
            assert_eq!(
                (kept[0].payload, kept[0].stop),
                (payload, UnixSeconds(stop))
            );
            assert_eq!(skipped.count(Skip::Duplicate), 1);
        }
    }
}
