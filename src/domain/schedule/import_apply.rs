//! Imports a parsed guide: applies it to the schedule, or reports what it would change.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use super::channel::Channel;
use super::chunk_store::{ChunkStore, PendingGeneration};
use super::diff::{ChannelDiff, DiffCounts, diff_channel};
use super::import::parsed_guide::ParsedGuide;
use super::import_preview::Edits;
use super::json_arena::JsonArena;
use super::plausibility::PlausibilityIssue;
use super::prepare::{PreparedChannel, plausibility_issues_of, prepare_channels};
use super::report::{ImportOptions, ImportOutcome, ImportReport, Unmapped};
use super::rights::{BroadcastRights, ChannelFacts, Rights};
use super::service::{Schedule, ScheduleError, first_day, render};
use super::snapshot::ScheduleSnapshot;
use super::source_spans::SourceSpans;
use super::{Broadcast, known_channels, lost_overrides};
use playgate_types::time::DAY;
use playgate_types::{BroadcastId, LivestreamId, UnixSeconds, Zone};

/// Creates livestreams for channels that the catalogue does not have.
pub trait MakeLivestreams {
    type Error: From<ScheduleError>;

    /// Called with the schedule locked; afterwards the current rights must include the livestreams.
    /// After an error the import changes nothing.
    fn make(&self, channels: &[Unmapped]) -> Result<(), Self::Error>;
}

/// The rights, including the livestreams that the import is about to create.
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
        let channel = self.rights.channel(livestream);
        // The zone is a placeholder: nothing is rendered before the livestream exists with its own zone.
        channel.or_else(|| new().then_some(ChannelFacts { zone: Zone::utc() }))
    }

    fn rights(&self, livestream: &LivestreamId, broadcast: &Broadcast) -> BroadcastRights {
        self.rights.rights(livestream, broadcast)
    }

    fn has_override(&self, id: &BroadcastId) -> bool {
        self.rights.has_override(id)
    }

    fn is_taken(&self, id: &str) -> bool {
        self.new.contains(id) || self.rights.is_taken(id)
    }
}

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

enum NoLivestreams {}

impl MakeLivestreams for NoLivestreams {
    type Error = ScheduleError;

    fn make(&self, _: &[Unmapped]) -> Result<(), ScheduleError> {
        match *self {}
    }
}

impl Schedule {
    /// Readers see the import atomically. After an error nothing has changed.
    pub fn import(
        &self,
        draft: ParsedGuide,
        options: &ImportOptions,
    ) -> Result<ImportReport, ScheduleError> {
        self.import_with(draft, options, None::<&NoLivestreams>)
    }

    /// First creates livestreams for unknown channels. A channel with an id that is in use for
    /// something else stays unmapped. After an error nothing of the guide is imported.
    pub fn import_making<M: MakeLivestreams>(
        &self,
        draft: ParsedGuide,
        options: &ImportOptions,
        make: &M,
    ) -> Result<ImportReport, M::Error> {
        self.import_with(draft, options, Some(make))
    }

    fn import_with<M: MakeLivestreams>(
        &self,
        mut draft: ParsedGuide,
        options: &ImportOptions,
        make: Option<&M>,
    ) -> Result<ImportReport, M::Error> {
        // Held to the end: imports run one at a time.
        let mut chunks = self.lock()?;
        let rights = (self.rights)();
        let before = self.snapshot.load_full();
        // A livestream with the id of a broadcast or an asset would make that id ambiguous.
        let (created, unmapped) = unknown(&draft, &*rights).into_iter().partition(|channel| {
            let id = channel.id.as_str();
            make.is_some() && !rights.is_taken(id) && before.broadcast(id).is_none()
        });
        let source = &options.priority.source;
        let known = known_channels::last(&self.store, source);
        let channels: BTreeSet<_> = draft.channels.keys().cloned().collect();
        let mut report = ImportReport {
            outcome: ImportOutcome::Applied,
            channels: u64::try_from(draft.channels.len()).unwrap_or(u64::MAX),
            programmes: draft.programmes,
            difference: DiffCounts::default(),
            skipped: std::mem::take(&mut draft.skipped),
            repairs: std::mem::take(&mut draft.repairs),
            unusable: std::mem::take(&mut draft.unusable).into_iter().collect(),
            lost: Vec::new(),
            shortened: draft.shortened,
            unrated: draft.unrated,
            unmapped,
            created,
            newly_seen: channels.difference(&known).cloned().collect(),
            issues: Vec::new(),
            edits: Vec::new(),
        };
        let expanded = Expanded {
            rights: &*rights,
            new: report.created.iter().map(|c| c.id.clone()).collect(),
        };
        let counts = (&mut report.skipped, &mut report.repairs);
        let context = (&expanded as &dyn Rights, before.as_ref());
        let ready = prepare_channels(draft, context, &self.source_spans, options, counts);
        report.issues = plausibility_issues_of(&before, &self.source_spans, source, &ready);
        let none_mapped = !report.unmapped.is_empty() && report.unmapped.len() == channels.len();
        if none_mapped && report.issues == [PlausibilityIssue::Nothing] {
            // The cause, and not what follows from it.
            let ids = report.unmapped.iter().map(|channel| &channel.id);
            report.issues = vec![PlausibilityIssue::none_mapped(ids)];
        }
        // An implausible guide is compared and reported, so that an operator can decide.
        report.outcome = match (options.dry_run, report.issues.is_empty() || options.accept) {
            (true, _) => ImportOutcome::DryRun,
            (false, false) => ImportOutcome::Held,
            (false, true) => ImportOutcome::Applied,
        };
        let mut change = ImportApplication {
            schedule: self,
            rights: &expanded,
            before: &before,
            options,
        };
        if report.outcome != ImportOutcome::Applied {
            change.compare(&chunks, ready, &mut report)?;
            return Ok(report);
        }
        let made;
        if let Some(make) = make.filter(|_| !report.created.is_empty()) {
            // Before the broadcasts: they need the rights and the zone of their livestream.
            make.make(&report.created)?;
            made = (self.rights)();
            change.rights = &*made;
            // Publish the new livestreams first: they exist even if the import of their broadcasts fails.
            let mut arena = JsonArena::default();
            let new = expanded.new.iter();
            let empty = new.filter_map(|id| render(id, &[], change.rights, &mut arena));
            let next = self.with_channels(&mut chunks, empty.collect(), JsonArena::default());
            self.snapshot.replace(next);
        }
        change.apply(&mut chunks, ready, &mut report)?;
        if let Err(error) = lost_overrides::record(&self.store, &self.lost, report.lost.clone()) {
            tracing::warn!(source, %error, "failed to record the overrides whose broadcast a guide has removed; only its report names them");
        }
        // Recorded only after the guide is served, so that a failed import reports the new channels again.
        if let Err(error) = known_channels::record(&self.store, source, &known, &channels) {
            tracing::warn!(source, %error, "failed to record the channels of a guide; the next import reports them as new again");
        }
        Ok(report)
    }
}

struct ImportApplication<'a> {
    schedule: &'a Schedule,
    rights: &'a dyn Rights,
    before: &'a Arc<ScheduleSnapshot>,
    options: &'a ImportOptions,
}

/// The result of the diff, published once the commit has succeeded.
#[derive(Default)]
struct PreparedImport {
    channels: Vec<Arc<Channel>>,
    arena: JsonArena,
    source_spans: Vec<(LivestreamId, SourceSpans)>,
}

impl ImportApplication<'_> {
    fn compare(
        &self,
        chunks: &ChunkStore,
        ready: Vec<PreparedChannel>,
        report: &mut ImportReport,
    ) -> Result<(), ScheduleError> {
        let mut given = HashSet::new();
        let mut edits = Edits::default();
        for one in ready {
            let livestream = one.livestream.clone();
            let (old, new) = self.diff(chunks, one, &mut given, report)?;
            // A livestream that is not created yet has no zone.
            let zone = self.rights.channel(&livestream).map(|channel| channel.zone);
            let zone = zone.unwrap_or(Zone::utc());
            edits.add(&livestream, zone, new.difference, (&old, &new.list));
        }
        report.edits = edits.livestreams;
        Ok(())
    }

    fn apply(
        &self,
        chunks: &mut ChunkStore,
        ready: Vec<PreparedChannel>,
        report: &mut ImportReport,
    ) -> Result<(), ScheduleError> {
        let mut writing = chunks.begin(&self.schedule.store)?;
        let prepared = match self.write(chunks, ready, report, &mut writing) {
            Ok(prepared) => prepared,
            Err(error) => {
                chunks.abandon(writing);
                return Err(error);
            }
        };
        let unchanged = writing.is_empty();
        // The commit is spared if nothing changes, as with most fetches.
        if unchanged && prepared.source_spans.is_empty() {
            return Ok(());
        }
        let schedule = self.schedule;
        // Held until the commit is answered, so that the writer thread does not free it.
        let _replaced = schedule.snapshot.load_full();
        // Derived before the commit and published by it: a crash before it leaves what clients already see.
        let next =
            (!unchanged).then(|| schedule.with_channels(chunks, prepared.channels, prepared.arena));
        chunks.switch(writing, prepared.source_spans, &schedule.snapshot, next)?;
        // Only the spans of sources have changed; the served schedule stays the same.
        if unchanged {
            return Ok(());
        }
        if let Err(error) = chunks.sweep(&self.schedule.store) {
            // The keys stay recorded; the next import or retention run tries again.
            tracing::warn!(%error, "failed to delete replaced schedule chunks; will retry");
        }
        Ok(())
    }

    fn write(
        &self,
        chunks: &ChunkStore,
        ready: Vec<PreparedChannel>,
        report: &mut ImportReport,
        writing: &mut PendingGeneration<'_>,
    ) -> Result<PreparedImport, ScheduleError> {
        let mut given = HashSet::new();
        let mut prepared = PreparedImport::default();
        for one in ready {
            let livestream = one.livestream.clone();
            prepared.source_spans.extend(self.changed_spans(&one));
            let (old, ChannelDiff { list: new, .. }) =
                self.diff(chunks, one, &mut given, report)?;
            if old != new {
                writing.replace(&livestream, &old, &new)?;
                // A livestream's broadcasts are megabytes; only one is held twice at a time.
                drop(old);
                let arena = &mut prepared.arena;
                (prepared.channels).extend(render(&livestream, &new, self.rights, arena));
            }
        }
        Ok(prepared)
    }

    fn changed_spans(&self, one: &PreparedChannel) -> Option<(LivestreamId, SourceSpans)> {
        let whole = one.whole?;
        let known = self.schedule.source_spans.get(&one.livestream);
        let before = known.as_deref().cloned().unwrap_or_default();
        let first = first_day(self.options.now, self.options.retention_days);
        let mut source_spans = before.clone();
        let source = &self.options.priority.source;
        source_spans.assign(
            source,
            &one.writable.free,
            whole.to,
            UnixSeconds(first * DAY),
        );
        (source_spans != before).then(|| (one.livestream.clone(), source_spans))
    }

    /// Returns the broadcasts before, and the diff. `given` holds the ids that the guide gave on the
    /// channels before.
    fn diff(
        &self,
        chunks: &ChunkStore,
        ready: PreparedChannel,
        given: &mut HashSet<BroadcastId>,
        report: &mut ImportReport,
    ) -> Result<(Vec<Broadcast>, ChannelDiff), ScheduleError> {
        let (livestream, writable, rows) = ready.rows(&mut report.skipped);
        let ids: Vec<_> = rows.iter().filter_map(|row| row.id.clone()).collect();
        let old = chunks.read(&self.schedule.store, &livestream)?;
        // An id must be unique over all livestreams, also within the guide.
        let taken = |id: &BroadcastId| {
            let elsewhere = self.before.broadcast(id.as_str());
            given.contains(id)
                || self.rights.is_taken(id.as_str())
                || elsewhere.is_some_and(|(channel, _)| channel.livestream != livestream)
        };
        let skipped = &mut report.skipped;
        let done = diff_channel(&livestream, old.clone(), rows, &writable, taken, skipped);
        given.extend(ids);
        report.difference += done.difference;
        let has_override = |id: &BroadcastId| self.rights.has_override(id);
        report.lost.extend(lost_overrides::lost(
            &livestream,
            (&old, &done.list),
            has_override,
        ));
        Ok((old, done))
    }
}
