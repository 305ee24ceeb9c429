//! The clock by which expiry is judged.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::types::UnixSeconds;

/// Token time: it never goes back. It equals the wall clock until that jumps; afterwards it runs on
/// from the highest time that was believed. What is issued gets its expiry in token time, so that a
/// token lasts as long as promised whatever the wall clock does.
///
/// Records hold token time where they say `expires`; what clients see is converted to wall time.
#[derive(Debug)]
pub struct ExpiryClock {
    /// Token time as of the last look at the clock, in seconds. A task looks every second.
    latest: AtomicI64,
    /// How far ahead of `latest` a reading is believed without a look. The largest number stands for
    /// a clock whose every reading is believed.
    reach: i64,
}

impl Default for ExpiryClock {
    /// Believes every reading.
    fn default() -> Self {
        Self::new(i64::MIN, i64::MAX)
    }
}

impl ExpiryClock {
    /// A clock at a token time in milliseconds, which believes readings up to `reach` seconds ahead of
    /// its last look.
    #[must_use]
    pub(super) const fn new(token: i64, reach: i64) -> Self {
        Self {
            latest: AtomicI64::new(token.div_euclid(1_000)),
            reach,
        }
    }

    /// Token time at the instant `now` of the wall clock: the reading of the request.
    #[must_use]
    pub fn at(&self, now: UnixSeconds) -> UnixSeconds {
        // Relaxed: one number that only rises; nothing else is published with it.
        let latest = self.latest.load(Ordering::Relaxed);
        if now.0.saturating_sub(latest) > self.reach {
            return UnixSeconds(latest);
        }
        UnixSeconds(now.0.max(latest))
    }

    /// An instant of the wall clock, such as the end of a broadcast, in token time.
    #[must_use]
    pub fn from_wall(&self, wall: UnixSeconds, now: UnixSeconds) -> UnixSeconds {
        wall + self.at(now).since(now)
    }

    /// An instant of token time as the wall clock will show it: what clients see.
    #[must_use]
    pub fn to_wall(&self, token: UnixSeconds, now: UnixSeconds) -> UnixSeconds {
        token - self.at(now).since(now)
    }

    /// Token time in milliseconds, as of a look.
    pub(super) fn raise(&self, token: i64) {
        self.latest
            .fetch_max(token.div_euclid(1_000), Ordering::Relaxed);
    }
}
