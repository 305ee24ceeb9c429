//! The import: from a draft to a schedule that is served, or to a report of what it would change.

use std::collections::HashSet;
use std::sync::Arc;

use super::builder::Slab;
use super::channel::Channel;
use super::import::draft::Draft;
use super::plan::{Difference, NewRow, plan};
use super::ready::{Unpacking, doubts, put_in_order};
use super::report::{ImportOptions, ImportReport, Outcome, Unmapped};
use super::rights::Rights;
use super::service::{Schedule, ScheduleError, render};
use super::shelf::{Shelf, Writing};
use super::snapshot::Snapshot;
use crate::types::{BroadcastId, LivestreamId};

impl Draft {
    /// The channels that the catalogue does not know: for making livestreams of them, with
    /// [`Schedule::refresh`] behind, before the import.
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
        options: &ImportOptions,
    ) -> Result<ImportReport, ScheduleError> {
        let mut shelf = self.shelf.lock();
        let rights = (self.rights)();
        let rights = &*rights;
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
        let packed = std::mem::take(&mut draft.packed);
        let ready = put_in_order(draft, rights, options, &mut report.skipped);
        report.doubts = doubts(&before, &ready);
        let change = Change {
            schedule: self,
            rights,
            before: &before,
        };
        let mut rows = Unpacking::of(packed, ready);
        report.outcome = match (options.dry_run, report.doubts.is_empty() || options.accept) {
            (true, _) => Outcome::DryRun,
            (false, false) => Outcome::Held,
            (false, true) => Outcome::Applied,
        };
        if report.outcome == Outcome::Applied {
            change.apply(&mut shelf, &mut rows, &mut report)?;
        } else {
            change.compare(&shelf, &mut rows, &mut report)?;
        }
        Ok(report)
    }
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
        channels: &mut Unpacking,
        report: &mut ImportReport,
    ) -> Result<(), ScheduleError> {
        let mut given = HashSet::new();
        while let Some((livestream, rows)) = channels.next(&mut report.skipped) {
            self.plan(shelf, &livestream, rows, &mut given, report)?;
        }
        Ok(())
    }

    fn apply(
        &self,
        shelf: &mut Shelf,
        channels: &mut Unpacking,
        report: &mut ImportReport,
    ) -> Result<(), ScheduleError> {
        let mut writing = shelf.begin(&self.schedule.store)?;
        let (prepared, slab) = match self.write(shelf, channels, report, &mut writing) {
            Ok(written) => written,
            Err(error) => {
                shelf.abandon(writing);
                return Err(error);
            }
        };
        if writing.is_empty() {
            return Ok(());
        }
        shelf.switch(writing)?;
        self.schedule.replace(shelf, prepared, slab);
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
        channels: &mut Unpacking,
        report: &mut ImportReport,
        writing: &mut Writing<'_>,
    ) -> Result<(Vec<Arc<Channel>>, Slab), ScheduleError> {
        let mut given = HashSet::new();
        let mut slab = Slab::default();
        let mut prepared = Vec::new();
        while let Some((livestream, rows)) = channels.next(&mut report.skipped) {
            let (old, new) = self.plan(shelf, &livestream, rows, &mut given, report)?;
            if old != new {
                writing.replace(&livestream, &old, &new)?;
                drop(old);
                prepared.extend(render(&livestream, &new, self.rights, &mut slab));
            }
        }
        Ok((prepared, slab))
    }

    /// Compares one channel: all broadcasts before and after. `given` are the ids that sources gave
    /// on the channels before it.
    fn plan(
        &self,
        shelf: &Shelf,
        livestream: &LivestreamId,
        rows: Vec<NewRow>,
        given: &mut HashSet<BroadcastId>,
        report: &mut ImportReport,
    ) -> Result<(Vec<super::Broadcast>, Vec<super::Broadcast>), ScheduleError> {
        let ids: Vec<_> = rows.iter().filter_map(|row| row.id.clone()).collect();
        let old = shelf.read(&self.schedule.store, livestream)?;
        if old.is_empty() && !rows.is_empty() {
            report.newly_seen.push(livestream.clone());
        }
        let taken = |id: &BroadcastId| {
            let elsewhere = self.before.broadcast(id.as_str());
            given.contains(id)
                || self.rights.is_taken(id.as_str())
                || elsewhere.is_some_and(|(channel, _)| channel.livestream != *livestream)
        };
        let done = plan(livestream, old.clone(), rows, taken, &mut report.skipped);
        given.extend(ids);
        report.difference += done.difference;
        Ok((old, done.list))
    }
}
