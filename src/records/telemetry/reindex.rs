//! Completes the index at a start.
//!
//! A restored backup holds an older index than the segment files. Events without an index entry would never be
//! erased, nor found for their user, so missing entries are added from the files. An entry without events does no
//! harm.

use std::collections::HashSet;

use super::error::TelemetryError;
use super::segment::scan;
use super::tables::{UserHourRecord, UserHours};
use super::{Inner, Telemetry};
use playgate_store::{Durability, StoreError};
use playgate_types::UserId;

const ENTRIES_AT_ONCE: usize = 1_000;

impl Telemetry {
    /// Returns how many entries were added.
    pub(super) fn complete_index(&self) -> Result<usize, TelemetryError> {
        let inner = &self.inner;
        let mut added = 0;
        let mut last_known = true;
        for hour in inner.directory.hours()?.into_iter().rev() {
            let known = inner.users_of(hour, 1)?;
            // The last indexed hour may have received more events after the backup.
            if known.is_empty() || std::mem::take(&mut last_known) {
                match inner.index_segment(hour) {
                    Ok(more) => added += more,
                    // The other hours must not lack their entries because of one file.
                    Err(error) => {
                        tracing::warn!(%error, hour, "failed to complete the telemetry index of an hour; the next start tries again");
                    }
                }
            }
        }
        Ok(added)
    }
}

impl Inner {
    fn users_of(&self, hour: i64, most: usize) -> Result<HashSet<UserId>, StoreError> {
        let entries = self.store.read(|txn| txn.scan::<UserHours>(&hour, most))?;
        Ok(entries.into_iter().map(|((_, user), _)| user).collect())
    }

    fn index_segment(&self, hour: i64) -> Result<usize, TelemetryError> {
        let known = self.users_of(hour, usize::MAX)?;
        let mut missing = HashSet::new();
        scan(&self.directory.events(hour), |event| {
            if !known.contains(&event.sender.user) {
                missing.insert(event.sender.user);
            }
        })?;
        let missing: Vec<UserId> = missing.into_iter().collect();
        for users in missing.chunks(ENTRIES_AT_ONCE) {
            let users = users.to_vec();
            self.store
                // Losing this at a power cut is harmless: the next start adds the entries again.
                .write(Durability::Logged, move |txn| {
                    for user in users {
                        txn.put::<UserHours>(&(hour, user), &UserHourRecord {})?;
                    }
                    Ok::<(), StoreError>(())
                })
                .wait()?;
        }
        Ok(missing.len())
    }
}
