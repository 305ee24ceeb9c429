//! The monotonic clock that decides expiry.

use std::sync::atomic::{AtomicI64, Ordering};

use playgate_types::UnixSeconds;

/// Token time: never decreases. It equals the wall clock until the wall clock jumps; then it
/// advances from the highest trusted time. `expires` fields of records hold token time; clients see
/// it converted to wall time.
#[derive(Debug)]
pub struct ExpiryClock {
    /// Token time in seconds at the last check; a background task checks every second.
    latest: AtomicI64,
    /// Seconds by which a reading may be ahead of `latest`; `i64::MAX` accepts every reading.
    reach: i64,
}

impl Default for ExpiryClock {
    fn default() -> Self {
        Self::new(i64::MIN, i64::MAX)
    }
}

impl ExpiryClock {
    /// `token` is in milliseconds, `reach` in seconds.
    pub(super) const fn new(token: i64, reach: i64) -> Self {
        Self {
            latest: AtomicI64::new(token.div_euclid(1_000)),
            reach,
        }
    }

    pub fn at(&self, now: UnixSeconds) -> UnixSeconds {
        // Relaxed suffices: a single number that only grows; nothing else is published with it.
        let latest = self.latest.load(Ordering::Relaxed);
        // The wall clock jumped ahead since the last check: do not follow until it is trusted.
        if now.0.saturating_sub(latest) > self.reach {
            return UnixSeconds(latest);
        }
        UnixSeconds(now.0.max(latest))
    }

    /// Converts a wall-clock time, such as the end of a broadcast, to token time.
    pub fn wall_to_token(&self, wall: UnixSeconds, now: UnixSeconds) -> UnixSeconds {
        // Both clocks advance alike from now on, so their difference converts a future time.
        wall + self.at(now).since(now)
    }

    pub fn token_to_wall(&self, token: UnixSeconds, now: UnixSeconds) -> UnixSeconds {
        token - self.at(now).since(now)
    }

    pub(super) fn raise(&self, token: i64) {
        // A maximum, because a concurrent check may have stored a later time.
        self.latest
            .fetch_max(token.div_euclid(1_000), Ordering::Relaxed);
    }
}
