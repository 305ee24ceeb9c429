//! The fence determines how long the owner of a fleet may rely on its state in memory.
//!
//! Another member can become the owner as soon as the lease of the claim has ended. This process may learn about that
//! late, because it was paused or cut off. It therefore uses its own clock, and sends an answer from memory only if the
//! fence holds *after* the answer was computed. Then no other member had changed anything when the answer was computed,
//! and the answer is the latest state at a time within the request. A check before the computation would not prove
//! more. A pause between the check and the sending is harmless, because the answer was correct while its request ran.
//!
//! The fence holds for one of two reasons:
//!
//! - **The lease.** A renewal that was sent at T by this clock ends at T + lease by the clock of etcd, or later. A margin
//!   covers clocks that run at different speeds.
//! - **Promises.** While etcd does not answer, every other member has answered a request that was sent at T, and has
//!   promised not to be the owner before T + lease. The promises count only if the fence still held when the last one
//!   arrived, so that no other member was the owner in between. A member that etcd answers makes no promise, since it
//!   could take over.
//!
//! The clock counts from the boot, and continues while a machine is suspended.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use playgate_ports::Clock;

/// Unused part of a lease, as a divisor: the clock of an owner may be slower than that of etcd or of another member by
/// less than a tenth.
const MARGIN_DIVISOR: i64 = 10;

pub struct Fence {
    clock: Arc<dyn Clock>,
    lease: i64,
    /// Epoch of the claim that this member holds; 0 for none.
    held: AtomicU64,
    /// Epoch at whose start the log was applied to its end.
    taken: AtomicU64,
    /// Uptime in milliseconds when the last renewal of the lease was sent.
    renewed: AtomicI64,
    /// Uptime in milliseconds when the last request was sent to which every other member has given its promise.
    promised: AtomicI64,
}

/// Earlier than any uptime. The half of the minimum leaves room for additions.
const NEVER: i64 = i64::MIN / 2;

impl Fence {
    pub(super) fn new(clock: Arc<dyn Clock>, lease: Duration) -> Self {
        Self {
            clock,
            lease: millis(lease),
            held: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            renewed: AtomicI64::new(NEVER),
            promised: AtomicI64::new(NEVER),
        }
    }

    pub fn holds(&self) -> bool {
        let held = self.held.load(Ordering::Acquire);
        // A new owner must first apply all entries that others appended before its claim.
        held != 0
            && held == self.taken.load(Ordering::Acquire)
            && (self.is_within(&self.renewed) || self.is_within(&self.promised))
    }

    pub fn is_leased(&self) -> bool {
        self.held.load(Ordering::Acquire) != 0 && self.is_within(&self.renewed)
    }

    pub fn is_lost(&self) -> bool {
        self.held.load(Ordering::Acquire) == 0
    }

    pub(super) fn is_ageing(&self) -> bool {
        // A renewal is sent every quarter of the lease, so at a third one is late.
        self.now() > self.renewed.load(Ordering::Acquire) + self.lease / 3
    }

    pub(super) fn now(&self) -> i64 {
        // Without such a clock the fence never holds.
        self.clock.uptime_millis().unwrap_or(i64::MAX)
    }

    fn is_within(&self, since: &AtomicI64) -> bool {
        let safe = self.lease - self.lease / MARGIN_DIVISOR;
        self.now() < since.load(Ordering::Acquire).saturating_add(safe)
    }

    /// Records that a call that was sent after `before` renewed the lease of a claim.
    pub(super) fn renew(&self, epoch: u64, before: i64) {
        // Another member may have been the owner before a new epoch.
        if self.held.swap(epoch, Ordering::AcqRel) != epoch {
            self.taken.store(0, Ordering::Release);
        }
        self.renewed.fetch_max(before, Ordering::AcqRel);
    }

    /// Records that every other member has given its promise to a request that was sent after `before`.
    pub(super) fn promise(&self, before: i64) {
        // Promises extend a fence that holds. After it has fallen, another member may have been the owner.
        if self.holds() {
            self.promised.fetch_max(before, Ordering::AcqRel);
        }
    }

    /// Records that everything that was appended before the claim is applied.
    pub(super) fn take(&self, epoch: u64) {
        self.taken.store(epoch, Ordering::Release);
    }

    pub(super) fn end(&self) {
        self.held.store(0, Ordering::Release);
    }
}

pub(super) fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use playgate_types::UnixSeconds;

    pub(crate) struct Uptime(pub AtomicI64);

    impl Clock for Uptime {
        fn now_millis(&self) -> i64 {
            UnixSeconds(0).0
        }

        fn uptime_millis(&self) -> Option<i64> {
            Some(self.0.load(Ordering::SeqCst))
        }
    }

    fn fence() -> (Arc<Uptime>, Fence) {
        let clock = Arc::new(Uptime(AtomicI64::new(1_000)));
        let fence = Fence::new(Arc::clone(&clock) as Arc<dyn Clock>, Duration::from_secs(2));
        (clock, fence)
    }

    #[test]
    fn fence_holds_while_the_lease_surely_does_and_the_log_was_applied() {
        let (clock, fence) = fence();
        assert!(!fence.holds() && fence.is_lost());
        fence.renew(7, 1_000);
        // The log is not applied yet.
        assert!(!fence.holds() && !fence.is_lost());
        fence.take(7);
        assert!(fence.holds());
        clock.0.store(2_799, Ordering::SeqCst);
        assert!(fence.holds());
        clock.0.store(2_800, Ordering::SeqCst);
        assert!(!fence.holds() && !fence.is_lost());
        // The answer is late: the time counts from the request.
        fence.renew(7, 900);
        assert!(!fence.holds());
        fence.renew(7, 2_800);
        assert!(fence.holds());
        // With another claim, another member may have been the owner in between.
        fence.renew(8, 2_800);
        assert!(!fence.holds());
        fence.take(8);
        fence.end();
        assert!(!fence.holds() && fence.is_lost());
    }

    #[test]
    fn promises_extend_the_fence_and_never_raise_it_again() {
        let (clock, fence) = fence();
        fence.renew(7, 1_000);
        fence.take(7);
        assert!(!fence.is_ageing());
        clock.0.store(2_700, Ordering::SeqCst);
        assert!(fence.is_ageing());
        fence.promise(2_600);
        clock.0.store(4_399, Ordering::SeqCst);
        assert!(fence.holds() && !fence.is_leased());
        fence.promise(4_300);
        clock.0.store(6_100, Ordering::SeqCst);
        assert!(!fence.holds());
        // Another member may have been the owner since the fence fell.
        fence.promise(6_100);
        assert!(!fence.holds());
        fence.renew(7, 6_100);
        assert!(fence.holds() && fence.is_leased());
    }
}
