//! The import: from a draft to a schedule that is served, or to a report of what it would change.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use chrono_tz::Tz;

use super::Broadcast;
use super::channel::Channel;
use super::channel_builder::JsonArena;
use super::chunk_store::{ChunkStore, PendingGeneration};
use super::diff::{ChannelDiff, DiffCounts, plan};
use super::import::parsed_guide::ParsedGuide;
use super::import_preview::Edits;
use super::known_channels;
use super::prepare::{PreparedChannel, doubts, prepare_channels};
use super::report::{ImportOptions, ImportReport, Outcome, Unmapped};
use super::rights::{BroadcastRights, ChannelFacts, Rights};
use super::service::{Schedule, ScheduleError, first_day, render};
use super::snapshot::Snapshot;
use super::source_spans::SourceSpans;
use crate::types::time::DAY;
use crate::types::{BroadcastId, LivestreamId, UnixSeconds};

/// Makes livestreams of channels that the catalogue does not know.
pub trait MakeLivestreams {
    /// Why it could not.
    type Error: From<ScheduleError>;

    /// Makes them. The schedule is held meanwhile; the current rights know them afterwards.
    ///
    /// # Errors
    /// That they could not be made; then the import changes nothing.
    fn make(&self, channels: &[Unmapped]) -> Result<(), Self::Error>;
}

/// The catalogue with the livestreams that an import makes before it writes.
struct Expanded<'a> {
    rights: &'a dyn Rights,
    new: BTreeSet<LivestreamId>,
}

impl Rights for Expanded<'_> {
    fn livestreams(&self) -> Vec<LivestreamId> {
        let mut all = self.rights.livestreams();
        all.extend(self.new.iter().cloned());
        all
    }

    fn channel(&self, livestream: &LivestreamId) -> Option<ChannelFacts> {
        let new = || self.new.contains(livestream);
        let facts = self.rights.channel(livestream);
        // Nothing is rendered before they are made and have a zone of their own.
        facts.or_else(|| new().then_some(ChannelFacts { zone: Tz::UTC }))
    }

    fn rights(&self, livestream: &LivestreamId, broadcast: &Broadcast) -> BroadcastRights {
        self.rights.rights(livestream, broadcast)
    }

    fn is_taken(&self, id: &str) -> bool {
        self.new.contains(id) || self.rights.is_taken(id)
    }
}

/// The channels of a guide that the catalogue does not know.
fn unknown(draft: &ParsedGuide, rights: &dyn Rights) -> Vec<Unmapped> {
    let unknown = draft.channels.iter();
    unknown
        .filter(|(id, _)| rights.channel(id).is_none())
        .map(|(id, channel)| Unmapped {
            id: id.clone(),
            name: channel.name.clone(),
            icon: channel.icon.clone(),
            programmes: u64::try_from(channel.rows.len()).unwrap_or(u64::MAX),
        })
        .collect()
}

/// Makes no livestreams.
enum Nobody {}

impl MakeLivestreams for Nobody {
    type Error = ScheduleError;

    fn make(&self, _: &[Unmapped]) -> Result<(), ScheduleError> {
        match *self {}
    }
}

impl Schedule {
    /// Brings a guide into the schedule. Readers see all of it at once, or nothing.
    ///
    /// # Errors
    /// That the store failed; then nothing has changed.
    pub fn import(
        &self,
        draft: ParsedGuide,
        options: &ImportOptions,
    ) -> Result<ImportReport, ScheduleError> {
        self.take_in(draft, options, None::<&Nobody>)
    }

    /// The same, with livestreams made of unknown channels first; those whose id something else has
    /// stay unmapped.
    ///
    /// # Errors
    /// That the store failed or livestreams could not be made; then nothing of the guide is there.
    pub fn import_making<M: MakeLivestreams>(
        &self,
        draft: ParsedGuide,
        options: &ImportOptions,
        make: &M,
    ) -> Result<ImportReport, M::Error> {
        self.take_in(draft, options, Some(make))
    }

    fn take_in<M: MakeLivestreams>(
        &self,
        mut draft: ParsedGuide,
        options: &ImportOptions,
        make: Option<&M>,
    ) -> Result<ImportReport, M::Error> {
        let mut shelf = self.shelf.lock();
        let rights = (self.rights)();
        let before = self.snapshot.load_full();
        let (created, unmapped) = unknown(&draft, &*rights).into_iter().partition(|channel| {
            let id = channel.id.as_str();
            make.is_some() && !rights.is_taken(id) && before.broadcast(id).is_none()
        });
        let source = &options.standing.source;
        let known = known_channels::last(&self.store, source);
        let channels: BTreeSet<_> = draft.channels.keys().cloned().collect();
        let mut report = ImportReport {
            outcome: Outcome::Applied,
            channels: u64::try_from(draft.channels.len()).unwrap_or(u64::MAX),
            programmes: draft.programmes,
            difference: DiffCounts::default(),
            skipped: std::mem::take(&mut draft.skipped),
            shortened: draft.shortened,
            unrated: draft.unrated,
            unmapped,
            created,
            newly_seen: channels.difference(&known).cloned().collect(),
            doubts: Vec::new(),
            edits: Vec::new(),
        };
        let expanded = Expanded {
            rights: &*rights,
            new: report.created.iter().map(|c| c.id.clone()).collect(),
        };
        let skipped = &mut report.skipped;
        let ready = prepare_channels(draft, &expanded, &self.claims, options, skipped);
        report.doubts = doubts(&before, &self.claims, source, &ready);
        report.outcome = match (options.dry_run, report.doubts.is_empty() || options.accept) {
            (true, _) => Outcome::DryRun,
            (false, false) => Outcome::Held,
            (false, true) => Outcome::Applied,
        };
        let mut change = Change {
            schedule: self,
            rights: &expanded,
            before: &before,
            options,
        };
        if report.outcome != Outcome::Applied {
            change.compare(&shelf, ready, &mut report)?;
            return Ok(report);
        }
        let made;
        if let Some(make) = make.filter(|_| !report.created.is_empty()) {
            make.make(&report.created)?;
            made = (self.rights)();
            change.rights = &*made;
            // Known from now on, whatever becomes of their broadcasts.
            let mut slab = JsonArena::default();
            let new = expanded.new.iter();
            let empty = new.filter_map(|id| render(id, &[], change.rights, &mut slab));
            self.replace(&mut shelf, empty.collect(), JsonArena::default());
        }
        change.apply(&mut shelf, ready, &mut report)?;
        if let Err(error) = known_channels::record(&self.store, source, &known, &channels) {
            tracing::warn!(source, %error, "the next guide will tell some channels as new again");
        }
        Ok(report)
    }
}

/// An import that is being compared or applied.
struct Change<'a> {
    schedule: &'a Schedule,
    rights: &'a dyn Rights,
    before: &'a Arc<Snapshot>,
    options: &'a ImportOptions,
}

/// What is to be served once it counts.
#[derive(Default)]
struct Prepared {
    channels: Vec<Arc<Channel>>,
    slab: JsonArena,
    claims: Vec<(LivestreamId, SourceSpans)>,
}

impl Change<'_> {
    /// Only counts, and notes the first changes.
    fn compare(
        &self,
        shelf: &ChunkStore,
        ready: Vec<PreparedChannel>,
        report: &mut ImportReport,
    ) -> Result<(), ScheduleError> {
        let mut given = HashSet::new();
        let mut edits = Edits::default();
        for one in ready {
            let livestream = one.livestream.clone();
            let (old, new) = self.plan(shelf, one, &mut given, report)?;
            let zone = self.rights.channel(&livestream).map(|facts| facts.zone);
            let zone = zone.unwrap_or(Tz::UTC);
            edits.add(&livestream, zone, new.difference, (&old, &new.list));
        }
        report.edits = edits.livestreams;
        Ok(())
    }

    fn apply(
        &self,
        shelf: &mut ChunkStore,
        ready: Vec<PreparedChannel>,
        report: &mut ImportReport,
    ) -> Result<(), ScheduleError> {
        let mut writing = shelf.begin(&self.schedule.store)?;
        let prepared = match self.write(shelf, ready, report, &mut writing) {
            Ok(prepared) => prepared,
            Err(error) => {
                shelf.abandon(writing);
                return Err(error);
            }
        };
        let unchanged = writing.is_empty();
        if unchanged && prepared.claims.is_empty() {
            return Ok(());
        }
        shelf.switch(writing, prepared.claims)?;
        if unchanged {
            return Ok(());
        }
        self.schedule
            .replace(shelf, prepared.channels, prepared.slab);
        if let Err(error) = shelf.sweep(&self.schedule.store) {
            // It is noted; the next import or retention tries again.
            tracing::warn!(%error, "what the import replaced could not be deleted yet");
        }
        Ok(())
    }

    /// Writes what differs, and prepares the answers of the livestreams that it differs on.
    fn write(
        &self,
        shelf: &ChunkStore,
        ready: Vec<PreparedChannel>,
        report: &mut ImportReport,
        writing: &mut PendingGeneration<'_>,
    ) -> Result<Prepared, ScheduleError> {
        let mut given = HashSet::new();
        let mut prepared = Prepared::default();
        for one in ready {
            let livestream = one.livestream.clone();
            prepared.claims.extend(self.claim(&one));
            let (old, ChannelDiff { list: new, .. }) = self.plan(shelf, one, &mut given, report)?;
            if old != new {
                writing.replace(&livestream, &old, &new)?;
                drop(old);
                let slab = &mut prepared.slab;
                (prepared.channels).extend(render(&livestream, &new, self.rights, slab));
            }
        }
        Ok(prepared)
    }

    /// What the source has of a livestream from now on, if that is another thing than before.
    fn claim(&self, one: &PreparedChannel) -> Option<(LivestreamId, SourceSpans)> {
        let whole = one.whole?;
        let known = self.schedule.claims.get(&one.livestream);
        let before = known.as_deref().cloned().unwrap_or_default();
        let first = first_day(self.options.now, self.options.retention_days);
        let mut claims = before.clone();
        let source = &self.options.standing.source;
        claims.assign(source, &one.room.free, whole.to, UnixSeconds(first * DAY));
        (claims != before).then(|| (one.livestream.clone(), claims))
    }

    /// Compares one channel: all broadcasts before, and what becomes of them. `given` are the ids
    /// that sources gave on the channels before it.
    fn plan(
        &self,
        shelf: &ChunkStore,
        ready: PreparedChannel,
        given: &mut HashSet<BroadcastId>,
        report: &mut ImportReport,
    ) -> Result<(Vec<Broadcast>, ChannelDiff), ScheduleError> {
        let (livestream, room, rows) = ready.rows(&mut report.skipped);
        let ids: Vec<_> = rows.iter().filter_map(|row| row.id.clone()).collect();
        let old = shelf.read(&self.schedule.store, &livestream)?;
        let taken = |id: &BroadcastId| {
            let elsewhere = self.before.broadcast(id.as_str());
            given.contains(id)
                || self.rights.is_taken(id.as_str())
                || elsewhere.is_some_and(|(channel, _)| channel.livestream != livestream)
        };
        let skipped = &mut report.skipped;
        let done = plan(&livestream, old.clone(), rows, &room, taken, skipped);
        given.extend(ids);
        report.difference += done.difference;
        Ok((old, done))
    }
}
