//! A guide's channels on their way into the schedule: in order, judged by the brake, unpacked.

use super::brake::{self, Doubt, Extent};
use super::import::draft::{Draft, Packed};
use super::import::{Problem, Skip, Skipped};
use super::normalise::{Kept, normalise};
use super::plan::NewRow;
use super::report::ImportOptions;
use super::rights::Rights;
use super::service::first_day;
use super::snapshot::Snapshot;
use crate::types::time::DAY;
use crate::types::{BroadcastId, LivestreamId};

/// Programmes that start later than this are slips in a date. One row of the year 2999 would make
/// every later guide end too early for the brake.
const AHEAD_MAX: i64 = 3 * 366 * DAY;

/// A channel of the guide, in order, before it is compared.
pub(super) struct Ready {
    livestream: LivestreamId,
    kept: Vec<Kept<u32>>,
}

/// Normalises each channel that a livestream carries, and drops what is too old or too far.
pub(super) fn put_in_order(
    draft: Draft,
    rights: &dyn Rights,
    options: &ImportOptions,
    skipped: &mut Skipped,
) -> Vec<Ready> {
    let first = first_day(options.now, options.retention_days);
    let last = options.now + AHEAD_MAX;
    let mut ready = Vec::new();
    for (livestream, channel) in draft.channels {
        let rows = channel.rows;
        if rights.channel(&livestream).is_none() {
            for row in rows {
                skipped.add(Problem {
                    line: row.line,
                    kind: Skip::Unmapped,
                });
            }
            continue;
        }
        let mut kept = normalise(rows, skipped);
        kept.retain(|row| {
            let kind = if row.start.utc_day() < first {
                Skip::TooOld
            } else if row.start > last {
                Skip::TooFar
            } else {
                return true;
            };
            skipped.add(Problem {
                line: row.line,
                kind,
            });
            false
        });
        ready.push(Ready { livestream, kept });
    }
    ready
}

/// What the brake has against these channels.
pub(super) fn doubts(before: &Snapshot, ready: &[Ready]) -> Vec<Doubt> {
    let (mut now, mut new) = (Extent::default(), Extent::default());
    for Ready { livestream, kept } in ready {
        let (Some(first), Some(last)) = (kept.first(), kept.last()) else {
            continue;
        };
        new.add(Extent {
            programmes: u64::try_from(kept.len()).unwrap_or(u64::MAX),
            horizon: Some(last.stop),
        });
        if let Some(channel) = before.channel(livestream.as_str()) {
            now.add(channel.extent(first.start, last.stop));
        }
    }
    brake::doubts(now, new)
}

/// The channels of a guide in its own order, unpacked one by one. What all rows to come lie behind
/// is given back: most guides have one channel after the other.
pub(super) struct Unpacking {
    packed: Packed,
    /// With the first payload of each and of all that follow it.
    ready: std::vec::IntoIter<(Ready, u32)>,
}

impl Unpacking {
    pub(super) fn of(packed: Packed, mut ready: Vec<Ready>) -> Self {
        let first = |one: &Ready| one.kept.iter().map(|row| row.payload).min();
        ready.sort_by_cached_key(first);
        let mut floor = u32::MAX;
        let mut floored = Vec::with_capacity(ready.len());
        for one in ready.into_iter().rev() {
            floor = floor.min(first(&one).unwrap_or(floor));
            floored.push((one, floor));
        }
        floored.reverse();
        Self {
            packed,
            ready: floored.into_iter(),
        }
    }

    /// The next channel and its rows.
    pub(super) fn next(&mut self, skipped: &mut Skipped) -> Option<(LivestreamId, Vec<NewRow>)> {
        let (ready, floor) = self.ready.next()?;
        self.packed.release_before(floor);
        let mut rows = Vec::with_capacity(ready.kept.len());
        for row in ready.kept {
            // The draft packed it: it can be unpacked.
            let Some((id, facts)) = self.packed.row(row.payload) else {
                continue;
            };
            let Ok(id) = id.map(|id| BroadcastId::parse(&id)).transpose() else {
                skipped.add(Problem {
                    line: row.line,
                    kind: Skip::BadId,
                });
                continue;
            };
            rows.push(NewRow {
                line: row.line,
                id,
                start: row.start,
                stop: row.stop,
                facts,
            });
        }
        Some((ready.livestream, rows))
    }
}
