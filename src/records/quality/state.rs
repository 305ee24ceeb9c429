//! The open views and the hours that change.
//!
//! The state is a function of the inputs in their order. They are logged before they are applied, and the log is
//! replayed from the last checkpoint at a start. A view is added to its hours when it is closed, in the batch of a tick;
//! each hour's file says up to which batch it has been written, so that a replay adds no view twice.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use foldhash::quality::RandomState;

use super::contributions::contributions;
use super::figures::Cell;
use super::files::{Files, InputLog};
use super::input::{OpenedSession, QualityInput};
use super::rollup::HourTable;
use super::user_views::UserViews;
use super::view::{View, ViewId};
use crate::telemetry::dimensions::Dimension;
use playgate_types::{DurationUnit, PartnerId, SessionId, UnixSeconds, UserId};

/// Seconds for which a view waits for late events after its last input.
pub(super) const LATE_SECONDS: i64 = 3_600;
/// Maximum open views. Beyond it, the views that have been silent longest are closed.
pub(super) const VIEWS_MAX: usize = 250_000;
/// Maximum bytes of the open views with their lists: players decide how much they report.
pub(super) const VIEWS_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Seconds between two searches for views to close.
const CLOSE_EVERY: i64 = 30;
/// Hours in memory; older ones are written and dropped. A full hour takes about 12 MB.
const HOURS_MAX: usize = 16;
/// Seconds that metrics look back.
const RECENT_SECONDS: i64 = 600;
/// Bytes of the log after which a checkpoint is written.
const LOG_MAX: u64 = 64 * 1024 * 1024;
/// Seconds between checkpoints.
const CHECKPOINT_EVERY: i64 = 300;

pub(super) type UnitOf = Box<dyn Fn(&PartnerId) -> DurationUnit + Send + Sync>;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QualityCounts {
    /// Events and heartbeats that were counted in a view.
    pub counted: u64,
    /// Inputs of a closed or unknown view.
    pub late: u64,
    /// Events of a player whose clock jumped in mid-view.
    pub clock: u64,
    /// Dropped because the queue was full.
    pub dropped: u64,
    pub open_views: u64,
    /// Views that were closed early because too many were open.
    pub evicted: u64,
}

/// Figures of the views that began in the last [`RECENT_SECONDS`] seconds, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecentFigures {
    pub attempts: u64,
    pub plays: u64,
    pub start_failures: u64,
    pub playback_failures: u64,
    pub waited_millis: u64,
    pub played_millis: u64,
}

pub(super) struct QualityState {
    /// Boxed, since up to half of the slots of a map are empty.
    pub(super) views: HashMap<ViewId, Box<View>, RandomState>,
    pub(super) by_user: HashMap<UserId, UserViews, RandomState>,
    pub(super) hours: BTreeMap<i64, Arc<HourTable>>,
    /// Number of the batch that is applied next.
    pub(super) next: u64,
    /// Absent until the replay at the start is done, and after a failed write.
    log: Option<InputLog>,
    pub(super) counts: QualityCounts,
    pub(super) recent: RecentFigures,
    pub(super) now: UnixSeconds,
    closed_at: UnixSeconds,
    checkpoint_at: UnixSeconds,
    /// Set after an erasure, since the files name the user until the next checkpoint, and after a failed write.
    must_checkpoint: bool,
    /// Why a write failed since the last checkpoint, if one did; a restart then loses figures.
    pub(super) write_error: Option<String>,
    pub(super) unit_of: UnitOf,
    pub(super) views_max: usize,
    pub(super) views_bytes_max: usize,
}

impl QualityState {
    pub(super) fn open(files: &Files, unit_of: UnitOf) -> io::Result<Self> {
        let (next, views): (u64, Vec<(ViewId, Box<View>)>) = files.read_views().unwrap_or_default();
        let mut state = Self {
            views: HashMap::default(),
            by_user: HashMap::default(),
            hours: BTreeMap::new(),
            next,
            log: None,
            counts: QualityCounts::default(),
            recent: RecentFigures::default(),
            now: UnixSeconds::default(),
            closed_at: UnixSeconds::default(),
            checkpoint_at: UnixSeconds::default(),
            must_checkpoint: false,
            write_error: None,
            unit_of,
            views_max: VIEWS_MAX,
            views_bytes_max: VIEWS_BYTES_MAX,
        };
        // Must precede the replay, whose inputs belong to these views.
        for (id, view) in views {
            state.insert(id, view);
        }
        let mut failed = None;
        let next = files.replay(next, |number, batch| {
            state.next = number;
            if let Err(error) = state.apply(files, batch) {
                failed.get_or_insert(error);
            }
        });
        // Batches behind a gap keep their numbers: an hour may have been written up to one of them.
        state.next = next;
        // The counts are those of this process, so replayed inputs do not count.
        state.counts = QualityCounts::default();
        // A full or read-only disk must not keep the server from starting: the figures are in memory, and each tick
        // tries again to write them.
        if let Err(error) = failed.map_or_else(|| state.checkpoint(files), Err) {
            tracing::warn!(%error, "failed to write quality figures at the start; they are kept in memory");
            state.write_error = Some(error.to_string());
            state.must_checkpoint = true;
        }
        Ok(state)
    }

    /// Logs a batch and applies it. After an error the figures in memory are complete, but a kill loses them.
    pub(super) fn log_and_apply(
        &mut self,
        files: &Files,
        batch: Vec<QualityInput>,
    ) -> io::Result<()> {
        let logged = self.log.as_mut().map_or(Ok(()), |log| log.append(&batch));
        if logged.is_err() {
            // The log may end in a partial batch, behind which nothing can be read. A checkpoint begins a new log.
            self.log = None;
            self.must_checkpoint = true;
        }
        // Applied even if it was not logged: figures in memory stay complete, and the checkpoint writes them.
        let applied = self.apply(files, batch).and(logged);
        if let Err(error) = &applied {
            // Not cleared by the next batch, which is not written without a log.
            self.write_error = Some(error.to_string());
        }
        applied
    }

    /// After a failed sync the log may lack batches, so a checkpoint has to begin a new one.
    pub(super) fn sync_failed(&mut self, error: &io::Error) {
        self.log = None;
        self.must_checkpoint = true;
        self.write_error = Some(error.to_string());
    }

    fn apply(&mut self, files: &Files, batch: Vec<QualityInput>) -> io::Result<()> {
        let number = self.next;
        self.next += 1;
        for input in batch {
            match input {
                QualityInput::Opened(opened) => self.open_session(&opened),
                QualityInput::Beat {
                    session,
                    at,
                    position,
                    bitrate,
                } => self.of_session(&session, |view| view.beat(at, position, bitrate)),
                QualityInput::Ended {
                    session,
                    at,
                    stopped,
                } => {
                    // At a start the ends of the last hour are reported again, even those of closed views.
                    if let Some(view) = self.views.get_mut(session.as_bytes()) {
                        view.end(at, stopped);
                    }
                }
                QualityInput::LicenseRefused { user, session, at } => {
                    self.of_session(&session, |view| view.refuse_license(&user, at));
                }
                QualityInput::Event {
                    user,
                    partner,
                    received,
                    event,
                } => self.event(user, partner, received, &event),
                QualityInput::Erased(user) => self.erase(&user),
                QualityInput::Tick(now) => self.tick(files, number, now)?,
            }
        }
        Ok(())
    }

    fn open_session(&mut self, opened: &OpenedSession) {
        let id = *opened.session.as_bytes();
        // At a start all running sessions are reported again.
        if self.views.contains_key(&id) {
            return;
        }
        let mut view = Box::new(View::opened(opened));
        // A player may report the request for playback before its preflight is answered.
        let asset = opened.labels.get(Dimension::Asset);
        let views = self.by_user.get(&opened.user);
        let ids = views.into_iter().flat_map(|views| &views.without_session);
        let early = ids.copied().find(|id| {
            self.views.get(id).is_some_and(|early| {
                early.precedes(&opened.device, opened.at)
                    && early.labels.get(Dimension::Asset) == asset
            })
        });
        if let Some(early) = early.and_then(|early| self.remove(&early)) {
            view.adopt(*early);
        }
        self.insert(id, view);
    }

    pub(super) fn insert(&mut self, id: ViewId, view: Box<View>) {
        if let Some(user) = view.user {
            self.by_user
                .entry(user)
                .or_default()
                .list_of(&view)
                .push(id);
        }
        self.views.insert(id, view);
    }

    fn remove(&mut self, id: &ViewId) -> Option<Box<View>> {
        let view = self.views.remove(id)?;
        if let Some(user) = view.user
            && let Some(views) = self.by_user.get_mut(&user)
        {
            views.list_of(&view).retain(|other| other != id);
            if views.all().next().is_none() {
                self.by_user.remove(&user);
            }
        }
        Some(view)
    }

    fn of_session(&mut self, session: &SessionId, change: impl FnOnce(&mut View)) {
        match self.views.get_mut(session.as_bytes()) {
            Some(view) => {
                change(view);
                self.counts.counted += 1;
            }
            None => self.counts.late += 1,
        }
    }

    fn erase(&mut self, user: &UserId) {
        for id in self.by_user.remove(user).unwrap_or_default().all() {
            if let Some(view) = self.views.get_mut(id) {
                view.forget_user();
            }
        }
        // The files name the user until the next checkpoint.
        self.must_checkpoint = true;
    }

    fn tick(&mut self, files: &Files, number: u64, now: UnixSeconds) -> io::Result<()> {
        self.now = now;
        self.counts.open_views = self.views.len() as u64;
        let full = self.views.len() > self.views_max;
        // A clock that was set back before the last search must not delay the next one.
        if !full && (0..CLOSE_EVERY).contains(&now.since(self.closed_at)) {
            return Ok(());
        }
        self.closed_at = now;
        self.recent = self.recent_figures(now);
        let mut over: Vec<(UnixSeconds, ViewId, usize)> = (self.views.iter())
            .map(|(id, view)| (view.last_received, *id, view.bytes()))
            .collect();
        over.sort_unstable();
        // Sorted by the last input, so the views to close are all at the front.
        let silent = over.partition_point(|(last, _, _)| now.since(*last) > LATE_SECONDS);
        let excess = self.excess(&over);
        self.counts.evicted += excess.saturating_sub(silent) as u64;
        // Both are counts from the front: those over the limit include the silent ones.
        over.truncate(silent.max(excess));
        for (_, id, _) in over {
            self.close(files, number, &id, now)?;
        }
        Ok(())
    }

    /// Returns how many of the views have to be closed, beginning with the one that has been silent longest.
    fn excess(&self, views: &[(UnixSeconds, ViewId, usize)]) -> usize {
        // Some more than needed, so that not every tick sorts all views.
        let by_number = match views.len().checked_sub(self.views_max) {
            Some(excess) if excess > 0 => excess + self.views_max / 20,
            Some(_) | None => 0,
        };
        let mut bytes: usize = views.iter().map(|(_, _, bytes)| bytes).sum();
        let too_large = views.iter().take_while(|(_, _, freed)| {
            let over = bytes > self.views_bytes_max;
            bytes -= freed;
            over
        });
        by_number.max(too_large.count())
    }

    fn recent_figures(&self, now: UnixSeconds) -> RecentFigures {
        let mut cell = Cell::default();
        for view in self.views.values() {
            if view.begin() > now - RECENT_SECONDS {
                let unit = (self.unit_of)(&view.partner);
                // Open views only: one that began so recently is closed early at most under memory pressure.
                cell.merge(&view.sums(unit, false));
            }
        }
        RecentFigures {
            attempts: cell.attempts.into(),
            plays: cell.plays.into(),
            start_failures: cell.start_failures.into(),
            playback_failures: cell.playback_failures.into(),
            waited_millis: cell.waited_millis,
            played_millis: cell.played_millis,
        }
    }

    /// Closes the views, except those that another member continues, which are dropped. Writes a checkpoint.
    pub(super) fn close_all(
        &mut self,
        files: &Files,
        is_elsewhere: impl Fn(&SessionId, UnixSeconds) -> bool,
        now: UnixSeconds,
    ) -> io::Result<()> {
        // The number of a batch, though nothing is logged: a kill before the end of the checkpoint repeats this with the
        // same number, and hours that are written already ignore it.
        let number = self.next;
        self.next += 1;
        let views: Vec<(ViewId, UnixSeconds)> = (self.views.iter())
            .map(|(id, view)| (*id, view.last_received))
            .collect();
        for (id, last) in views {
            match is_elsewhere(&SessionId::from_bytes(id), last) {
                true => drop(self.remove(&id)),
                false => self.close(files, number, &id, now)?,
            }
        }
        self.now = now;
        self.checkpoint(files)
    }

    /// Removes a view and adds it to its hours.
    fn close(
        &mut self,
        files: &Files,
        number: u64,
        id: &ViewId,
        now: UnixSeconds,
    ) -> io::Result<()> {
        let Some(view) = self.remove(id) else {
            return Ok(());
        };
        let unit = (self.unit_of)(&view.partner);
        let mut parts = Vec::new();
        contributions(&view, unit, now, true, |hour, minute, cell| {
            parts.push((hour, minute, cell));
        });
        for (hour, minute, cell) in parts {
            let table = self.hour(files, hour)?;
            // The file of the hour has all batches before `stored`: a replay must not add their views again.
            if number >= table.stored {
                Arc::make_mut(table).add(minute, &view.labels, &cell);
            }
        }
        Ok(())
    }

    fn hour(&mut self, files: &Files, hour: i64) -> io::Result<&mut Arc<HourTable>> {
        match self.hours.entry(hour) {
            std::collections::btree_map::Entry::Occupied(entry) => Ok(entry.into_mut()),
            std::collections::btree_map::Entry::Vacant(entry) => {
                let stored = files.read_hour(hour)?.unwrap_or_default();
                Ok(entry.insert(Arc::new(stored)))
            }
        }
    }

    /// Returns a handle to sync the log without holding the state.
    pub(super) fn unsynced(&mut self) -> Option<io::Result<(File, PathBuf)>> {
        self.log.as_mut()?.unsynced()
    }

    pub(super) fn needs_checkpoint(&self) -> bool {
        self.must_checkpoint
            || self.log.as_ref().is_some_and(|log| log.bytes > LOG_MAX)
            || self.hours.len() > HOURS_MAX
            // Also after the clock was set back before the last checkpoint.
            || !(0..CHECKPOINT_EVERY).contains(&self.now.since(self.checkpoint_at))
    }

    /// Writes the hours that changed and the open views, and begins a new log.
    pub(super) fn checkpoint(&mut self, files: &Files) -> io::Result<()> {
        let written = self.write_checkpoint(files);
        self.write_error = written.as_ref().err().map(ToString::to_string);
        written
    }

    fn write_checkpoint(&mut self, files: &Files) -> io::Result<()> {
        // The log is synced first: after a power cut no hour's file may be ahead of the log.
        if let Some(log) = &mut self.log {
            log.sync()?;
        }
        let next = self.next;
        for (hour, table) in &mut self.hours {
            if table.changed {
                // Copied only if a report holds the table at this moment.
                let table = Arc::make_mut(table);
                table.fold();
                // Each hour before the views: a kill in between replays the log, and `stored` keeps it from counting
                // twice.
                files.write_hour(*hour, table, next)?;
                table.stored = next;
                table.changed = false;
            }
        }
        let views: Vec<(&ViewId, &Box<View>)> = self.views.iter().collect();
        self.log = Some(files.checkpoint(&(next, views), next)?);
        // The last hours stay in memory, because they are needed again soon.
        let keep = self.hours.keys().rev().nth(2).copied().unwrap_or(i64::MIN);
        self.hours.retain(|hour, _| *hour >= keep);
        self.checkpoint_at = self.now;
        self.must_checkpoint = false;
        Ok(())
    }
}
