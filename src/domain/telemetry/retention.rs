//! Dropping events whose time has come, whole hours at a time.

use std::fs;
use std::io;

use super::error::TelemetryError;
use super::tables::UserHours;
use super::{Inner, Telemetry, hour_of};
use crate::store::{All, Durability, StoreError};
use crate::types::UnixSeconds;

/// Index entries that one transaction removes.
const ENTRIES_AT_ONCE: usize = 1_000;

impl Telemetry {
    /// The oldest hour that is kept.
    pub(super) fn oldest_kept(&self, now: UnixSeconds) -> i64 {
        hour_of(now) - i64::from(self.inner.settings.retention_days) * 24
    }

    /// Drops the hours that are older than the retention. Returns how many files went.
    ///
    /// # Errors
    /// That a file or the store failed.
    pub fn retain(&self, now: UnixSeconds) -> Result<usize, TelemetryError> {
        let inner = &self.inner;
        let oldest = self.oldest_kept(now);
        let dropped = inner.or_fail(inner.drop_files(oldest))?;
        while inner.drop_entries(oldest)? == ENTRIES_AT_ONCE {}
        Ok(dropped)
    }
}

impl Inner {
    fn drop_files(&self, oldest: i64) -> Result<usize, TelemetryError> {
        let mut dropped = 0;
        let mut state = self.state.lock();
        for hour in self.directory.hours()? {
            if hour >= oldest {
                break;
            }
            // Only a clock that was moved makes the open segment an old one.
            state.segment.take_if(|segment| segment.hour == hour);
            let of = &self.directory;
            for path in [of.events(hour), of.keys(hour), of.lengths(hour)] {
                match fs::remove_file(path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(error.into());
                    }
                    _ => {}
                }
            }
            dropped += 1;
        }
        drop(state);
        if dropped > 0 {
            self.directory.sync()?;
        }
        Ok(dropped)
    }

    /// Removes the oldest index entries, if their hour is over. Returns how many.
    fn drop_entries(&self, oldest: i64) -> Result<usize, StoreError> {
        self.store
            .write(Durability::Logged, move |txn| {
                let mut entries = txn.scan::<UserHours>(&All, ENTRIES_AT_ONCE)?;
                entries.retain(|((hour, _), _)| *hour < oldest);
                for (key, _) in &entries {
                    txn.delete::<UserHours>(key)?;
                }
                Ok(entries.len())
            })
            .wait()
    }
}
