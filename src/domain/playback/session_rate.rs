//! Rate limits of one playback session: of its heartbeats, and of the reports of its player.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use playgate_types::{LimitReached, UnixSeconds};

/// A player reports every ten seconds and at events, each of which may be a request of its own. A report of junk costs
/// milliseconds.
pub(super) const REPORT_RATE: BeatRate = BeatRate {
    per_second: 5,
    burst: 60,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeatRate {
    pub per_second: u32,
    pub burst: u32,
}

impl BeatRate {
    pub(super) fn reached(self) -> LimitReached {
        LimitReached {
            name: "heartbeat",
            limit: self.burst,
            window: i64::from(self.burst.div_ceil(self.per_second.max(1))),
            retry_after: 1,
        }
    }
}

/// A token bucket in one atomic: the virtual time up to which the allowed requests are used up, in seconds times the rate.
pub(super) struct SpentRate(AtomicI64);

impl Default for SpentRate {
    fn default() -> Self {
        Self(AtomicI64::new(i64::MIN))
    }
}

impl SpentRate {
    pub(super) fn admit(&self, rate: BeatRate, now: UnixSeconds) -> bool {
        let burst = i64::from(rate.burst);
        let present = now.0.saturating_mul(i64::from(rate.per_second));
        let take = |spent: i64| {
            // More than a whole burst ahead means that the clock was set back.
            let spent = if spent > present.saturating_add(burst) {
                present
            } else {
                spent.max(present)
            };
            (spent < present.saturating_add(burst)).then(|| spent.saturating_add(1))
        };
        self.0.fetch_update(Relaxed, Relaxed, take).is_ok()
    }
}
