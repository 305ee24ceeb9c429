//! Taking events.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::error::TelemetryError;
use super::model::{Fingerprint, NewEvent, Sender, StoredEvent, Taken};
use super::segment::Segment;
use super::tables::{UserHourRecord, UserHours};
use super::{Inner, State, Telemetry, frame, hour_of};
use crate::store::{Durability, Need};
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
        let hour = hour_of(now);
        let stored: Vec<(u64, StoredEvent)> = events
            .into_iter()
            .map(|event| (device_of(&sender, &event), stored(sender, event, now)))
            .collect();
        if stored.is_empty() {
            return Ok(Taken::default());
        }
        let inner = &self.inner;
        // The first thing that goes when space runs out.
        inner.store.admits(Need::Telemetry)?;
        let mut state = inner.indexed(sender.user, hour)?;
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
            let appended = inner.append(&mut state, hour, &frames, &keys);
            if let Err(failed @ TelemetryError::Failed(_)) = &appended {
                state.failed = Some(failed.clone());
            }
            appended?;
        }
        for key in &keys {
            state.recent.remember(*key, hour);
        }
        let new: HashSet<Fingerprint> = keys.into_iter().collect();
        for (device, event) in &stored {
            if new.contains(&event.fingerprint) {
                state.gaps.note(*device, event.sequence);
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
        fingerprint: Fingerprint::of(&sender, &event),
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
    /// The state, once the index says that the user has events in the hour. The index comes first:
    /// an entry without events does no harm, events without an entry would never be erased.
    fn indexed(
        &self,
        user: UserId,
        hour: i64,
    ) -> Result<parking_lot::MutexGuard<'_, State>, TelemetryError> {
        loop {
            let mut state = self.state.lock();
            if let Some(failed) = &state.failed {
                return Err(failed.clone());
            }
            if state.indexed.0 != hour {
                state.indexed = (hour, HashSet::new());
            }
            if state.indexed.1.contains(&user) {
                return Ok(state);
            }
            drop(state);
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
            // Another hour may have begun meanwhile; then the loop asks again.
            if state.indexed.0 == hour {
                state.indexed.1.insert(user);
            }
        }
    }

    fn append(
        &self,
        state: &mut State,
        hour: i64,
        frames: &[u8],
        keys: &[Fingerprint],
    ) -> Result<(), TelemetryError> {
        let mut segment = match state.segment.take() {
            Some(segment) if segment.hour == hour => segment,
            other => {
                if let Some(done) = other {
                    done.close(&self.directory)
                        .map_err(|error| TelemetryError::Failed(error.to_string()))?;
                    state.dirty = false;
                }
                state.recent.tidy(hour);
                let _not_while = self.rewriting.lock();
                Segment::open(&self.directory, hour)?
            }
        };
        let appended = segment.append(frames, keys);
        state.segment = Some(segment);
        state.dirty |= appended.is_ok();
        appended
    }
}
