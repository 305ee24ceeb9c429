//! Until when the owner of a fleet may rely on what it has in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use crate::ports::Clock;

/// Clocks run at different speeds, by far less than a tenth.
const MARGIN: u32 = 10;

/// Whether the claim of the owner surely still holds. What was read before this says so is the last state.
pub struct Fence {
    clock: Arc<dyn Clock>,
    /// The epoch that is held, and the one whose log was applied.
    held: AtomicU64,
    taken: AtomicU64,
    /// Uptime in milliseconds.
    until: AtomicI64,
}

impl Fence {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            held: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            until: AtomicI64::new(0),
        }
    }

    #[must_use]
    pub fn holds(&self) -> bool {
        let held = self.held.load(Ordering::Acquire);
        held != 0
            && held == self.taken.load(Ordering::Acquire)
            && self.now() < self.until.load(Ordering::Acquire)
    }

    pub(super) fn now(&self) -> i64 {
        // Suspension included: a lease goes on while a machine sleeps.
        self.clock.uptime_millis().unwrap_or(i64::MAX)
    }

    /// The lease of a claim was renewed by a call that began at `before`.
    pub(super) fn extend(&self, epoch: u64, before: i64, lease: Duration) {
        let safe = lease - lease / MARGIN;
        let safe = i64::try_from(safe.as_millis()).unwrap_or(0);
        if self.held.swap(epoch, Ordering::AcqRel) != epoch {
            self.taken.store(0, Ordering::Release);
        }
        self.until
            .store(before.saturating_add(safe), Ordering::Release);
    }

    /// Everything that was appended before the claim was applied.
    pub(super) fn take(&self, epoch: u64) {
        self.taken.store(epoch, Ordering::Release);
    }

    pub(super) fn end(&self) {
        self.held.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::UnixSeconds;

    struct Uptime(AtomicI64);

    impl Clock for Uptime {
        fn now_millis(&self) -> i64 {
            UnixSeconds(0).0
        }

        fn uptime_millis(&self) -> Option<i64> {
            Some(self.0.load(Ordering::SeqCst))
        }
    }

    #[test]
    fn fence_holds_while_the_lease_surely_does_and_the_log_was_applied() {
        let clock = Arc::new(Uptime(AtomicI64::new(1_000)));
        let fence = Fence::new(Arc::clone(&clock) as Arc<dyn Clock>);
        assert!(!fence.holds());
        fence.extend(7, 1_000, Duration::from_secs(2));
        // The log was not applied yet.
        assert!(!fence.holds());
        fence.take(7);
        assert!(fence.holds());
        clock.0.store(2_799, Ordering::SeqCst);
        assert!(fence.holds());
        clock.0.store(2_800, Ordering::SeqCst);
        assert!(!fence.holds());
        fence.extend(7, 2_800, Duration::from_secs(2));
        assert!(fence.holds());
        // Another claim: somebody else may have had one in between.
        fence.extend(8, 2_800, Duration::from_secs(2));
        assert!(!fence.holds());
        fence.take(8);
        fence.end();
        assert!(!fence.holds());
    }
}
