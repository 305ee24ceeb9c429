//! The import: from a draft to a schedule that is served, or to a report of what it would change.

use std::collections::HashSet;
use std::sync::Arc;

use super::brake::{self, Doubt, Extent};
use super::import::draft::{Draft, DraftChannel};
use super::import::{Problem, Skip, Skipped};
use super::normalise::{Kept, normalise};
use super::plan::{Difference, NewRow, plan};
use super::rights::Rights;
use super::service::{Schedule, ScheduleError, first_day, render};
use super::shelf::{Shelf, Writing};
use super::snapshot::Snapshot;
use crate::types::time::DAY;
use crate::types::{BroadcastId, LivestreamId, UnixSeconds};

/// Programmes that start later than this are slips in a date. One row of the year 2999 would make
/// every later guide end too early for the brake.
const AHEAD_MAX: i64 = 3 * 366 * DAY;

/// What an import is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportOptions {
    /// Only report.
    pub dry_run: bool,
    /// Import even where the brake holds it.
    pub accept: bool,
    /// The instant of the import.
    pub now: UnixSeconds,
    /// How many days back broadcasts are kept.
    pub retention_days: u32,
}

/// What became of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is served, if it changed anything.
    Applied,
    /// Nothing was changed because only a report was asked for.
    DryRun,
    /// Nothing was changed because of doubts: the brake holds it.
    Held,
}

/// A channel of the guide that no livestream of the catalogue carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmapped {
    /// The livestream id that it maps to.
    pub id: LivestreamId,
    /// What the guide calls it.
    pub name: Option<String>,
    /// How many programmes it has.
    pub programmes: u64,
}

/// What an import did, or would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportReport {
    /// Whether it is served.
    pub outcome: Outcome,
    /// How many channels the guide names.
    pub channels: u64,
    /// How many programmes the guide has, those skipped included.
    pub programmes: u64,
    /// What changes.
    pub difference: Difference,
    /// The rows that were not taken.
    pub skipped: Skipped,
    /// How many programmes had a text or list that was cut.
    pub shortened: u64,
    /// Channels that the catalogue does not know.
    pub unmapped: Vec<Unmapped>,
    /// Livestreams that had no broadcast before.
    pub newly_seen: Vec<LivestreamId>,
    /// What the brake has against it; an accepted import has them too.
    pub doubts: Vec<Doubt>,
}

/// A channel of the guide, in order, before it is compared.
struct Ready {
    livestream: LivestreamId,
    channel: DraftChannel,
    kept: Vec<Kept<u32>>,
}

impl Draft {
    /// The channels that the catalogue does not know: for making livestreams of them before the
    /// import.
    #[must_use]
    pub fn unknown(&self, rights: &dyn Rights) -> Vec<Unmapped> {
        let unknown = self.channels.iter();
        unknown
            .filter(|(id, _)| rights.channel(id).is_none())
            .map(|(id, channel)| Unmapped {
                id: id.clone(),
                name: channel.name.clone(),
                programmes: u64::try_from(channel.rows.len()).unwrap_or(u64::MAX),
            })
            .collect()
    }
}

impl Schedule {
    /// Brings a guide into the schedule. Readers see all of it at once, or nothing.
    ///
    /// # Errors
    /// That the store failed; then nothing has changed.
    pub fn import(
        &self,
        mut draft: Draft,
        rights: &dyn Rights,
        options: &ImportOptions,
    ) -> Result<ImportReport, ScheduleError> {
        let mut shelf = self.shelf.lock();
        let mut report = ImportReport {
            outcome: Outcome::Applied,
            channels: u64::try_from(draft.channels.len()).unwrap_or(u64::MAX),
            programmes: draft.programmes,
            difference: Difference::default(),
            skipped: std::mem::take(&mut draft.skipped),
            shortened: draft.shortened,
            unmapped: draft.unknown(rights),
            newly_seen: Vec::new(),
            doubts: Vec::new(),
        };
        let before = self.snapshot.load_full();
        let ready = put_in_order(draft, rights, options, &mut report.skipped);
        report.doubts = doubts(&before, &ready);
        let change = Change {
            schedule: self,
            rights,
            before: &before,
        };
        report.outcome = match (options.dry_run, report.doubts.is_empty() || options.accept) {
            (true, _) => Outcome::DryRun,
            (false, false) => Outcome::Held,
            (false, true) => Outcome::Applied,
        };
        if report.outcome == Outcome::Applied {
            change.apply(&mut shelf, ready, &mut report)?;
        } else {
            change.compare(&shelf, ready, &mut report)?;
        }
        Ok(report)
    }
}

/// Normalises each channel that a livestream carries, and drops what is too old or too far.
fn put_in_order(
    draft: Draft,
    rights: &dyn Rights,
    options: &ImportOptions,
    skipped: &mut Skipped,
) -> Vec<Ready> {
    let first = first_day(options.now, options.retention_days);
    let last = options.now + AHEAD_MAX;
    let mut ready = Vec::new();
    for (livestream, mut channel) in draft.channels {
        let rows = std::mem::take(&mut channel.rows);
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
        ready.push(Ready {
            livestream,
            channel,
            kept,
        });
    }
    ready
}

/// What the brake has against these channels.
fn doubts(before: &Snapshot, ready: &[Ready]) -> Vec<Doubt> {
    let (mut now, mut new) = (Extent::default(), Extent::default());
    for Ready {
        livestream, kept, ..
    } in ready
    {
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

/// An import that is being compared or applied.
struct Change<'a> {
    schedule: &'a Schedule,
    rights: &'a dyn Rights,
    before: &'a Arc<Snapshot>,
}

impl Change<'_> {
    /// Only counts.
    fn compare(
        &self,
        shelf: &Shelf,
        ready: Vec<Ready>,
        report: &mut ImportReport,
    ) -> Result<(), ScheduleError> {
        let mut given = HashSet::new();
        for one in ready {
            self.plan(shelf, one, &mut given, report)?;
        }
        Ok(())
    }

    fn apply(
        &self,
        shelf: &mut Shelf,
        ready: Vec<Ready>,
        report: &mut ImportReport,
    ) -> Result<(), ScheduleError> {
        let mut writing = shelf.begin(&self.schedule.store)?;
        let channels = match self.write(shelf, ready, report, &mut writing) {
            Ok(channels) => channels,
            Err(error) => {
                shelf.abandon(writing);
                return Err(error);
            }
        };
        if writing.is_empty() {
            return Ok(());
        }
        shelf.switch(writing)?;
        // Of two with one name the later counts.
        let all: Vec<_> = self.before.channels().cloned().chain(channels).collect();
        self.schedule.publish(Snapshot::of(all));
        if let Err(error) = shelf.sweep(&self.schedule.store) {
            // It is noted; the next import or retention tries again.
            tracing::warn!(%error, "what the import replaced could not be deleted yet");
        }
        Ok(())
    }

    /// Writes what differs, and prepares the answers of the livestreams that it differs on.
    fn write(
        &self,
        shelf: &Shelf,
        ready: Vec<Ready>,
        report: &mut ImportReport,
        writing: &mut Writing<'_>,
    ) -> Result<Vec<Arc<super::channel::Channel>>, ScheduleError> {
        let mut given = HashSet::new();
        let mut channels = Vec::new();
        for one in ready {
            let livestream = one.livestream.clone();
            let (old, new) = self.plan(shelf, one, &mut given, report)?;
            if old != new {
                writing.replace(&livestream, &old, &new)?;
                drop(old);
                channels.extend(render(&livestream, &new, self.rights));
            }
        }
        Ok(channels)
    }

    /// Compares one channel: all broadcasts before and after. `given` are the ids that sources gave
    /// on the channels before it.
    fn plan(
        &self,
        shelf: &Shelf,
        one: Ready,
        given: &mut HashSet<BroadcastId>,
        report: &mut ImportReport,
    ) -> Result<(Vec<super::Broadcast>, Vec<super::Broadcast>), ScheduleError> {
        let rows = new_rows(&one, &mut report.skipped);
        let ids: Vec<_> = rows.iter().filter_map(|row| row.id.clone()).collect();
        let Ready { livestream, .. } = one;
        let old = shelf.read(&self.schedule.store, &livestream)?;
        if old.is_empty() && !rows.is_empty() {
            report.newly_seen.push(livestream.clone());
        }
        let taken = |id: &BroadcastId| {
            let elsewhere = self.before.broadcast(id.as_str());
            given.contains(id)
                || self.rights.is_taken(id.as_str())
                || elsewhere.is_some_and(|(channel, _)| channel.livestream != livestream)
        };
        let done = plan(&livestream, old.clone(), rows, taken, &mut report.skipped);
        given.extend(ids);
        report.difference += done.difference;
        Ok((old, done.list))
    }
}

/// Unpacks the rows of a channel.
fn new_rows(ready: &Ready, skipped: &mut Skipped) -> Vec<NewRow> {
    let mut rows = Vec::with_capacity(ready.kept.len());
    for kept in &ready.kept {
        // The draft packed it: it can be unpacked.
        let Ok((id, facts)) = ready.channel.row(kept.payload) else {
            continue;
        };
        let Ok(id) = id.map(|id| BroadcastId::parse(&id)).transpose() else {
            skipped.add(Problem {
                line: kept.line,
                kind: Skip::BadId,
            });
            continue;
        };
        rows.push(NewRow {
            line: kept.line,
            id,
            start: kept.start,
            stop: kept.stop,
            facts,
        });
    }
    rows
}
