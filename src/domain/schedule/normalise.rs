//! Normalises the rows of a channel: sorts them and removes duplicates and overlaps. Every dropped row is counted
//! by kind. The order of the rules is significant.

use super::import::{GuideProblem, Skip, Skipped};
use crate::types::UnixSeconds;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row<T> {
    pub line: u64,
    pub start: UnixSeconds,
    pub stop: Option<UnixSeconds>,
    pub titled: bool,
    pub payload: T,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeptRow<T> {
    pub line: u64,
    /// Later than the start of the previous row.
    pub start: UnixSeconds,
    /// Later than its start, and not after the start of the next row.
    pub stop: UnixSeconds,
    pub payload: T,
}

pub(crate) fn normalise<T>(mut rows: Vec<Row<T>>, skipped: &mut Skipped) -> Vec<KeptRow<T>> {
    let mut skip = |line, kind| skipped.add(GuideProblem { line, kind });
    // Must come first: an unusable row must not end or cut another one.
    rows.retain(|row| {
        let stops_wrong = row.stop.is_some_and(|stop| stop <= row.start);
        if !row.titled {
            skip(row.line, Skip::EmptyTitle);
        } else if stops_wrong {
            skip(row.line, Skip::StopNotAfterStart);
        }
        row.titled && !stops_wrong
    });
    // Stable sort: the order of the guide breaks ties.
    rows.sort_by_key(|row| row.start);
    rows.dedup_by(|later, earlier| {
        let same = later.start == earlier.start;
        if same {
            skip(later.line, Skip::Duplicate);
        }
        same
    });
    let mut kept: Vec<KeptRow<T>> = Vec::with_capacity(rows.len());
    let mut rows = rows.into_iter().peekable();
    while let Some(row) = rows.next() {
        // A row without a stop ends where the next one starts.
        let Some(stop) = row.stop.or_else(|| rows.peek().map(|next| next.start)) else {
            skip(row.line, Skip::NoStop);
            continue;
        };
        if let Some(last) = kept.last_mut() {
            // Only the last row has to be checked: it ends later than all rows before it.
            if stop <= last.stop {
                skip(row.line, Skip::Contained);
                continue;
            }
            // An overlap ends at the later row, which is usually the correction.
            last.stop = last.stop.min(row.start);
        }
        kept.push(KeptRow {
            line: row.line,
            start: row.start,
            stop,
            payload: row.payload,
        });
    }
    kept
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
                    titled: !row.starts_with('!'),
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
            ("5-5 7-6 8-9", "8-9", "stopNotAfterStart:1,2"),
            ("0-10 0-12 0-8", "0-10", "duplicate:2,3"),
            ("0- 10-20", "0-10 10-20", ""),
            ("0-10 10-", "0-10", "noStop:2"),
            ("0-", "", "noStop:1"),
            ("0-100 10-50", "0-100", "contained:2"),
            ("0-100 10-100", "0-100", "contained:2"),
            ("0-100 10-110", "0-10 10-110", ""),
            ("0-100 10-110 20-105", "0-10 10-110", "contained:3"),
            ("0-100 10-50 20-120", "0-20 20-120", "contained:2"),
            // A missing stop becomes the start of the next row, even if that row is dropped later.
            ("0-100 10- 20-50 90-120", "0-90 90-120", "contained:2,3"),
            ("0- 0-5 7-9", "0-7 7-9", "duplicate:2"),
            ("!0- 0-5", "0-5", "emptyTitle:1"),
        ] {
            let mut skipped = Skipped::default();
            let kept = normalise(rows(given), &mut skipped);
            assert_eq!(shown(&kept), expected, "{given}");
            let seen = skipped
                .iter()
                .map(|(kind, rows)| {
                    let lines: Vec<_> = rows.lines.iter().map(u64::to_string).collect();
                    format!("{}:{}", kind.as_str(), lines.join(","))
                })
                .collect::<Vec<_>>();
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
                titled: *titled,
                payload: at,
            }).collect();
            let mut skipped = Skipped::default();
            let kept = normalise(rows.clone(), &mut skipped);
            // Every row is either kept or counted as skipped.
            prop_assert_eq!(kept.len() as u64 + skipped.total(), rows.len() as u64);
            for row in &kept {
                prop_assert!(row.start < row.stop);
                let given = &rows[row.payload];
                prop_assert_eq!(row.start, given.start);
                prop_assert!(given.stop.is_none_or(|stop| row.stop <= stop));
            }
            for pair in kept.windows(2) {
                prop_assert!(pair[0].stop <= pair[1].start);
                prop_assert!(pair[0].start < pair[1].start);
            }
            // Every instant that the original span of a kept row covers is still covered.
            for row in &kept {
                if let Some(stop) = rows[row.payload].stop {
                    for instant in row.start.0..stop.0 {
                        let covered = |k: &KeptRow<_>| k.start.0 <= instant && instant < k.stop.0;
                        prop_assert!(kept.iter().any(covered));
                    }
                }
            }
            // Normalising is idempotent.
            let again = kept.iter().map(|row| Row {
                line: row.line, start: row.start, stop: Some(row.stop), titled: true,
                payload: row.payload,
            }).collect();
            let mut none = Skipped::default();
            prop_assert_eq!(normalise(again, &mut none), kept);
            prop_assert_eq!(none.total(), 0);
        }
    }
}
