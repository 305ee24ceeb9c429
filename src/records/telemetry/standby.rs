//! Telemetry in a fleet. Only the owner adds events. Each member has those that it stored as the owner, and a standby
//! continues to forward, erase and drop them.

use std::collections::HashSet;
use std::sync::Arc;

use super::Telemetry;
use super::error::TelemetryError;
use playgate_types::{UnixSeconds, UserId};

/// Erases a user's events on every other member; fails if one of them fails.
pub type EraseElsewhere = Arc<dyn Fn(&UserId) -> Result<(), String> + Send + Sync>;

impl Telemetry {
    /// For the owner of a fleet: an erasure completes only after the other members have done it.
    pub fn erase_elsewhere(&self, elsewhere: EraseElsewhere) {
        let _ = self.inner.elsewhere.set(elsewhere);
    }

    /// Erases the events of a user for the owner. Leaves the index unchanged, which only the owner writes.
    pub fn erase_as_standby(&self, user: &UserId) -> Result<(), TelemetryError> {
        let inner = &self.inner;
        let users = HashSet::from([*user]);
        for hour in inner.hours_of(user)? {
            inner.or_fail(inner.rewrite_without(hour, &users))?;
        }
        Ok(())
    }

    /// Leaves the index unchanged, as [`erase_as_standby`](Self::erase_as_standby). Returns how many hours were dropped.
    pub fn retain_as_standby(&self, now: UnixSeconds) -> Result<usize, TelemetryError> {
        let inner = &self.inner;
        inner.or_fail(inner.drop_files(inner.oldest_kept(now)))
    }
}
