//! The event files of a fleet member that is not the owner: the events that it stored while it was the owner. No events
//! are added, but erasure and retention continue.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use parking_lot::{Condvar, Mutex};

use super::error::TelemetryError;
use super::segment::Directory;
use super::{Inner, Telemetry, TelemetrySettings, TelemetryState};
use crate::store::Store;
use crate::types::{UnixSeconds, UserId};

/// Erases a user's events on every other member; fails if one of them fails.
pub type EraseElsewhere = Arc<dyn Fn(&UserId) -> Result<(), String> + Send + Sync>;

impl Telemetry {
    /// For the owner of a fleet: an erasure completes only after the other members have done it.
    pub fn erase_elsewhere(&self, elsewhere: EraseElsewhere) {
        let _ = self.inner.elsewhere.set(elsewhere);
    }
}

pub struct StandbyTelemetry(Inner);

impl StandbyTelemetry {
    pub fn open(store: Store, settings: TelemetrySettings) -> Result<Self, TelemetryError> {
        Ok(Self(Inner {
            store,
            directory: Directory::open(&settings.directory, settings.sync)?,
            settings,
            state: Mutex::new(TelemetryState::default()),
            synced: Condvar::new(),
            rewriting: Mutex::new(()),
            compression: Mutex::default(),
            observer: OnceLock::new(),
            elsewhere: OnceLock::new(),
        }))
    }

    /// Leaves the index unchanged, which only the owner writes.
    pub fn erase(&self, user: &UserId) -> Result<(), TelemetryError> {
        let users = HashSet::from([*user]);
        for hour in self.0.hours_of(user)? {
            self.0.rewrite_without(hour, &users)?;
        }
        Ok(())
    }

    /// Returns how many hours were dropped.
    pub fn retain(&self, now: UnixSeconds) -> Result<usize, TelemetryError> {
        self.0.drop_files(self.0.oldest_kept(now))
    }
}
