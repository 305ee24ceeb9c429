//! Taking events.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::error::TelemetryError;
use super::model::{Fingerprint, NewEvent, Sender, StoredEvent, Taken};
use super::segment::Segment;
use super::tables::{UserHourRecord, UserHours};
use super::{Inner, State, Telemetry, frame, hour_of};
use crate::store::{Durability, WritePriority};
use crate::types::{UnixSeconds, UserId};

impl Telemetry {
    /// Keeps the events that are new. They are in the log when this returns, and synced within half
    /// a second: a kill loses nothing, a power cut at most that much.
    ///
    /// Blocks for as long as a write to a file may take.
    ///
    /// # Errors
    /// [`TelemetryError::Full`], or that a file or the store failed; then nothing of the batch is
    /// kept.
    pub fn accept(
        &self,
        sender: Sender,
        events: Vec<NewEvent>,
        now: UnixSeconds,
    ) -> Result<Taken, TelemetryError> {
        let stored: Vec<(u64, StoredEvent)> = events
            .into_iter()
            .map(|event| (device_of(&sender, &event), stored(sender, event, now)))
            .collect();
        if stored.is_empty() {
            return Ok(Taken::default());
        }
        let inner = &self.inner;
        // The first thing that goes when space runs out.
        inner.store.admits(WritePriority::Telemetry)?;
        let (mut state, hour) = inner.ready(sender.user, hour_of(now))?;
        let mut batch = HashSet::new();
        let mut frames = Vec::new();
        let mut keys = Vec::new();
        for (_, event) in &stored {
            let key = event.fingerprint;
            if batch.insert(key) && !state.recent.knows(key, hour) {
                frame::write(event, &mut frames);
                keys.push(key);
            }
        }
        if !keys.is_empty() {
            let bytes = frames.len() as u64;
            let budgets = &inner.settings.budgets;
            state.usage.admit(budgets, &sender, bytes, now)?;
            inner.store.admits_bytes(WritePriority::Telemetry, bytes)?;
            let appended = state.append(&frames, &keys);
            if let Err(failed @ TelemetryError::Failed(_)) = &appended {
                state.failed = Some(failed.clone());
            }
            appended?;
            state.usage.add(&sender, bytes);
        }
        for key in &keys {
            state.recent.remember(*key, hour);
        }
        let new: HashSet<Fingerprint> = keys.into_iter().collect();
        for (device, event) in &stored {
            if new.contains(&event.fingerprint) {
                state.gaps.record(*device, event.sequence);
            }
        }
        let accepted = u32::try_from(new.len()).unwrap_or(u32::MAX);
        let duplicates = u32::try_from(stored.len() - new.len()).unwrap_or(u32::MAX);
        state.counts.accepted += u64::from(accepted);
        state.counts.duplicates += u64::from(duplicates);
        state.counts.bytes += frames.len() as u64;
        Ok(Taken {
            accepted,
            duplicates,
        })
    }
}

fn stored(sender: Sender, event: NewEvent, received: UnixSeconds) -> StoredEvent {
    StoredEvent {
        sender,
        received,
        timestamp_millis: event.timestamp_millis,
        sequence: event.sequence,
        fingerprint: Fingerprint::new(&sender, &event),
        json: event.json,
    }
}

/// Tells devices apart for the estimate of loss.
fn device_of(sender: &Sender, event: &NewEvent) -> u64 {
    let mut hasher = DefaultHasher::new();
    (sender.user, &event.device).hash(&mut hasher);
    hasher.finish()
}

impl Inner {
    /// The state with the segment open that events of an hour go into, and its hour.
    ///
    /// A request may have read the clock before the hour ended and get here after: its events go
    /// into the segment that has begun. The one that is done is not opened again, which would take
    /// as long as it is large.
    fn ready(
        &self,
        user: UserId,
        now: i64,
    ) -> Result<(parking_lot::MutexGuard<'_, State>, i64), TelemetryError> {
        loop {
            let mut state = self.state.lock();
            if let Some(failed) = &state.failed {
                return Err(failed.clone());
            }
            let open = state.segment.as_ref().map(|open| open.hour);
            let hour = open.filter(|open| *open == now + 1).unwrap_or(now);
            // The index comes first: an entry without events does no harm, events without an entry
            // would never be erased.
            if state.indexed.0 != hour {
                state.indexed = (hour, HashSet::new());
            }
            if !state.indexed.1.contains(&user) {
                drop(state);
                self.index(user, hour)?;
            } else if open == Some(hour) {
                return Ok((state, hour));
            } else if self.directory.events(hour).exists() {
                drop(state);
                self.open_again(hour)?;
            } else {
                state.begin(Segment::open(&self.directory, hour)?);
                return Ok((state, hour));
            }
        }
    }

    /// Has the index say that the user has events in the hour.
    fn index(&self, user: UserId, hour: i64) -> Result<(), TelemetryError> {
        let exists = self.settings.exists;
        self.store
            .write(Durability::Logged, move |txn| {
                if !exists(txn, &user)? {
                    return Err(TelemetryError::UserGone);
                }
                let record = UserHourRecord {};
                Ok(txn.put::<UserHours>(&(hour, user), &record)?)
            })
            .wait()?;
        let mut state = self.state.lock();
        // Another hour may have begun since; then it is asked for again.
        if state.indexed.0 == hour {
            state.indexed.1.insert(user);
        }
        Ok(())
    }

    /// Opens a segment that has a file: after a start on a full disk, and where the clock was set
    /// back. Its file is read to the end first, while others go on.
    fn open_again(&self, hour: i64) -> Result<(), TelemetryError> {
        let _rewriting = self.rewriting.lock();
        {
            let mut state = self.state.lock();
            if state.segment.as_ref().is_some_and(|open| open.hour == hour) {
                return Ok(());
            }
            if let Some(at) = state.done.iter().position(|done| done.hour == hour) {
                let again = state.done.swap_remove(at);
                state.begin(again);
                return Ok(());
            }
        }
        let segment = Segment::open(&self.directory, hour)?;
        self.state.lock().begin(segment);
        Ok(())
    }
}

impl State {
    /// Goes on with another segment; the sync thread closes the one before.
    fn begin(&mut self, segment: Segment) {
        let before = self.segment.replace(segment);
        self.done.extend(before);
    }

    fn append(&mut self, frames: &[u8], keys: &[Fingerprint]) -> Result<(), TelemetryError> {
        let segment = self.segment.as_mut();
        let segment = segment.ok_or_else(|| TelemetryError::Io("no segment is open".to_owned()))?;
        let appended = segment.append(frames, keys);
        self.dirty |= appended.is_ok();
        appended
    }
}
