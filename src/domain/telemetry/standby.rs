//! The event files of a member of a fleet that is not the owner: what it stored while it was. Nothing is
//! added to them; they are still erased and dropped by age.

use std::sync::{Arc, OnceLock};

use parking_lot::{Condvar, Mutex};

use super::error::TelemetryError;
use super::segment::Directory;
use super::{Inner, State, Telemetry, TelemetrySettings};
use crate::store::Store;
use crate::types::{UnixSeconds, UserId};

/// Erases a user's events on every other member; fails unless all of them have.
pub type EraseElsewhere = Arc<dyn Fn(&UserId) -> Result<(), String> + Send + Sync>;

impl Telemetry {
    /// For the owner of a fleet: an erasure is done once the others have done it too.
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
            state: Mutex::new(State::default()),
            synced: Condvar::new(),
            rewriting: Mutex::new(()),
            compression: Mutex::default(),
            observer: OnceLock::new(),
            elsewhere: OnceLock::new(),
        }))
    }

    /// The index is the owner's, and so is its change.
    pub fn erase(&self, user: &UserId) -> Result<(), TelemetryError> {
        for hour in self.0.hours_of(user)? {
            self.0.rewrite_without(hour, user)?;
        }
        Ok(())
    }

    /// Returns how many hours were dropped.
    pub fn retain(&self, now: UnixSeconds) -> Result<usize, TelemetryError> {
        self.0.drop_files(self.0.oldest_kept(now))
    }
}
