//! Accepts batches of events.

use std::collections::HashSet;
use std::hash::BuildHasher as _;
use std::io;
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use foldhash::quality::FixedState;
use parking_lot::MutexGuard;

use super::error::TelemetryError;
use super::model::{Accepted, Fingerprint, NewEvent, Sender, StoredEvent};
use super::segment::{Directory, TelemetrySegment};
use super::tables::{UserHourRecord, UserHours};
use super::{Inner, Telemetry, TelemetryState, frame, hour_of};
use playgate_store::{Durability, SYNC_WITHIN, WritePriority};
use playgate_types::{UnixSeconds, UserId};

/// How long an upload waits for a disk that is behind with its syncs. Clients retry a refused batch.
const SYNC_MAX_WAIT: Duration = Duration::from_secs(2);

impl Telemetry {
    /// Stores the new events of a batch, or none of them. Blocks during the file write.
    pub fn ingest(
        &self,
        sender: Sender,
        events: Vec<NewEvent<'_>>,
        now: UnixSeconds,
    ) -> Result<Accepted, TelemetryError> {
        if events.is_empty() {
            return Ok(Accepted::default());
        }
        let inner = &self.inner;
        // Telemetry is the first kind of write to be rejected when space runs out.
        inner.store.admits(WritePriority::Telemetry)?;
        // All work that needs no lock is done before the lock is taken.
        let sent = events.len();
        let mut events: Vec<_> = events
            .into_iter()
            .map(|event| Upload::new(&sender, event))
            .collect();
        let most = events
            .iter()
            .map(|upload| upload.event.json.len() + frame::OVERHEAD_BYTES)
            .sum();
        let mut frames = Vec::with_capacity(most);
        // The state stays locked until the batch is counted, so that budgets and the dedup window are
        // exact.
        let (mut state, hour) = inner.ready(sender.user, hour_of(now))?;
        let state = &mut *state;
        let mut batch = HashSet::with_capacity_and_hasher(sent, RandomState::default());
        // Players resend unanswered batches, and a batch can contain an event twice.
        events.retain(|upload| batch.insert(upload.key) && !state.dedup.knows(upload.key, hour));
        let keys: Vec<Fingerprint> = events.iter().map(|upload| upload.key).collect();
        for Upload { event, key, .. } in &events {
            let stored = StoredEvent {
                sender,
                received: now,
                timestamp_millis: event.timestamp_millis,
                sequence: event.sequence,
                fingerprint: *key,
                json: &event.json,
            };
            frame::write(&stored, &mut frames);
        }
        if !keys.is_empty() {
            let bytes = frames.len() as u64;
            // Budgets count new events only: a retry must not use them up twice.
            let budgets = &inner.settings.budgets;
            state.usage.admit(budgets, &sender, bytes, now)?;
            inner.store.admits_bytes(WritePriority::Telemetry, bytes)?;
            // The events are in the log when this returns and are synced within half a second: a kill loses nothing, a
            // power cut at most half a second.
            let appended = state.append(&inner.directory, &frames, &keys);
            if let Err(failed @ TelemetryError::Failed(_)) = &appended {
                // A failed write may have left a partial frame; nothing may be appended behind it.
                state.failed = Some(failed.clone());
            }
            appended?;
            state.usage.add(&sender, bytes);
        }
        // After the append: a rejected batch must not be known as received.
        state.dedup.remember(&keys, hour);
        for upload in &events {
            state.gaps.record(upload.device, upload.event.sequence);
            state.counts.ignored_values += u64::from(upload.event.ignored_values);
        }
        // Under the lock, so that the observer gets the events in the order of the log.
        if let Some(observer) = inner.observer.get() {
            let mut players = events
                .iter_mut()
                .filter_map(|upload| upload.event.player.take());
            observer.stored_all(sender, &mut players, now);
        }
        let accepted = u32::try_from(keys.len()).unwrap_or(u32::MAX);
        let duplicates = u32::try_from(sent - keys.len()).unwrap_or(u32::MAX);
        state.counts.accepted += u64::from(accepted);
        state.counts.duplicates += u64::from(duplicates);
        state.counts.bytes += frames.len() as u64;
        Ok(Accepted {
            accepted,
            duplicates,
        })
    }

    /// Counts events that were rejected before they reached this module.
    pub fn count_rejected(&self, events: usize) {
        if events > 0 {
            self.inner.state.lock().counts.rejected += events as u64;
        }
    }
}

struct Upload<'a> {
    event: NewEvent<'a>,
    key: Fingerprint,
    device: u64,
}

impl<'a> Upload<'a> {
    fn new(sender: &Sender, event: NewEvent<'a>) -> Self {
        Self {
            key: Fingerprint::new(sender, &event),
            device: FixedState::default().hash_one((sender.user, &event.device)),
            event,
        }
    }
}

impl Inner {
    /// Locks the state with the open segment for events of `hour`; also returns the segment's hour.
    fn ready(
        &self,
        user: UserId,
        now: i64,
    ) -> Result<(MutexGuard<'_, TelemetryState>, i64), TelemetryError> {
        loop {
            let mut state = self.state.lock();
            self.await_sync(&mut state)?;
            let open = state.segment.as_ref().map(|open| open.hour);
            // A request may read the clock before the hour ends and arrive here later. Its events go to the new
            // segment, since reopening the finished one would take as long as the file is large.
            let hour = open.filter(|open| *open == now + 1).unwrap_or(now);
            // Index first: an entry without events does no harm, but events without an entry would never be erased.
            if state.indexed.0 != hour {
                state.indexed = (hour, HashSet::new());
            }
            if !state.indexed.1.contains(&user) {
                // The store and file work below runs without the lock, so the loop checks the state again afterwards.
                drop(state);
                self.index(user, hour)?;
            } else if open == Some(hour) {
                return Ok((state, hour));
            } else if self.directory.events(hour).exists() {
                drop(state);
                self.reopen_segment(hour)?;
            } else {
                let opened = TelemetrySegment::open_or_replace(&self.directory, hour);
                let segment = opened.map_err(|error| state.failed_at_open(error))?;
                state.begin(segment);
                return Ok((state, hour));
            }
        }
    }

    /// Waits while earlier events have been unsynced for longer than promised.
    fn await_sync(&self, state: &mut MutexGuard<'_, TelemetryState>) -> Result<(), TelemetryError> {
        let deadline = Instant::now() + SYNC_MAX_WAIT;
        loop {
            if let Some(failed) = &state.failed {
                return Err(failed.clone());
            }
            if !state.is_sync_overdue() {
                return Ok(());
            }
            // Without this wait, a power cut on a slow disk could lose more than half a second of acknowledged events.
            if self.synced.wait_until(state, deadline).timed_out() {
                return Err(TelemetryError::SyncOverdue);
            }
        }
    }

    fn index(&self, user: UserId, hour: i64) -> Result<(), TelemetryError> {
        let exists = self.settings.exists;
        self.store
            .write(Durability::Logged, move |txn| {
                // In the same transaction: an erasure that runs at the same time either sees this entry or makes it
                // fail.
                if !exists(txn, &user)? {
                    return Err(TelemetryError::UserGone);
                }
                let record = UserHourRecord {};
                Ok(txn.put::<UserHours>(&(hour, user), &record)?)
            })
            .wait()?;
        let mut state = self.state.lock();
        // If another hour has begun, the caller indexes the user again for that hour.
        if state.indexed.0 == hour {
            state.indexed.1.insert(user);
        }
        Ok(())
    }

    /// Opens a segment that already has a file: after a start on a full disk, and after the clock was
    /// set back.
    fn reopen_segment(&self, hour: i64) -> Result<(), TelemetryError> {
        let _rewriting = self.rewriting.lock();
        {
            let mut state = self.state.lock();
            if state.segment.as_ref().is_some_and(|open| open.hour == hour) {
                return Ok(());
            }
            if let Some(at) = state.done.iter().position(|done| done.hour == hour) {
                // Not closed yet, so it can be appended to again without reading it.
                let again = state.done.swap_remove(at);
                state.begin(again);
                return Ok(());
            }
        }
        // Reads the file to its end, so the state is not locked.
        let opened = TelemetrySegment::open_or_replace(&self.directory, hour);
        let mut state = self.state.lock();
        let segment = opened.map_err(|error| state.failed_at_open(error))?;
        state.begin(segment);
        Ok(())
    }
}

impl TelemetryState {
    /// After a failed sync no upload may go on: the kernel may have dropped pages of the segment.
    fn failed_at_open(&mut self, error: io::Error) -> TelemetryError {
        let error = TelemetryError::from(error);
        if matches!(error, TelemetryError::Failed(_)) {
            self.failed = Some(error.clone());
        }
        error
    }

    /// Switches to another segment. The sync thread closes the previous one.
    fn begin(&mut self, segment: TelemetrySegment) {
        let before = self.segment.replace(segment);
        self.done.extend(before);
    }

    fn append(
        &mut self,
        directory: &Directory,
        frames: &[u8],
        keys: &[Fingerprint],
    ) -> Result<(), TelemetryError> {
        let segment = self.segment.as_mut();
        let segment = segment.ok_or_else(|| TelemetryError::Io("no segment is open".to_owned()))?;
        let appended = segment.append(directory, frames, keys);
        if appended.is_ok() {
            self.unsynced_since.get_or_insert_with(Instant::now);
        }
        appended
    }

    fn is_sync_overdue(&self) -> bool {
        let oldest = self.syncing_since.or(self.unsynced_since);
        oldest.is_some_and(|since| since.elapsed() > SYNC_WITHIN)
    }
}
