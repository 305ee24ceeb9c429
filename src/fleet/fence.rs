//! Until when the owner of a fleet may rely on what it has in memory.
//!
//! Another member can become the owner as soon as the lease of the claim has ended. This process may learn of that
//! late: it may be paused or cut off. So it judges by its own clock, and an answer from memory is sent only if the
//! fence holds *after* the answer was computed. Then nobody else had changed anything when it was computed: it is the
//! last state at a time within the request. A check before the work would prove no more, and a pause between the check
//! and the sending does no harm, because the answer was right while its request ran.
//!
//! The fence holds on one of two grounds:
//!
//! - **The lease.** A renewal that was sent at T by this clock ends at T + lease by that of etcd, or later. The margin
//!   is for clocks that run at different speeds.
//! - **Promises.** While etcd does not answer, every other member has answered a question that was sent at T: it will
//!   not be the owner before T + lease. They count only if the fence still held when the last one came, so that nobody
//!   was the owner in between. A member to which etcd answers promises nothing, since it could take over.
//!
//! The clock is that since boot, which also counts while a machine is suspended.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use crate::ports::Clock;

/// The part of a lease that is not used: the clock of an owner may run slower than that of etcd, or of another member,
/// by less than a tenth.
const MARGIN: i64 = 10;

/// Whether what was read before this says so was the last state.
pub struct Fence {
    clock: Arc<dyn Clock>,
    /// Milliseconds.
    lease: i64,
    /// Epoch of the claim that this member holds, or 0.
    held: AtomicU64,
    /// Epoch whose log was applied to the end.
    taken: AtomicU64,
    /// When the last renewal of the lease was sent. Uptime in milliseconds, as below.
    renewed: AtomicI64,
    /// When the last question was sent to which every other member has given its promise.
    promised: AtomicI64,
}

/// Before any time of this boot.
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

    #[must_use]
    pub fn holds(&self) -> bool {
        let held = self.held.load(Ordering::Acquire);
        held != 0
            && held == self.taken.load(Ordering::Acquire)
            && (self.is_within(&self.renewed) || self.is_within(&self.promised))
    }

    /// Whether etcd has renewed the lease of this member in time.
    #[must_use]
    pub fn is_leased(&self) -> bool {
        self.held.load(Ordering::Acquire) != 0 && self.is_within(&self.renewed)
    }

    /// Whether this member has no claim: another one has it, or this one gave it up.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.held.load(Ordering::Acquire) == 0
    }

    /// Whether a renewal is late.
    pub(super) fn is_ageing(&self) -> bool {
        self.now() > self.renewed.load(Ordering::Acquire) + self.lease / 3
    }

    pub(super) fn now(&self) -> i64 {
        // Without such a clock it never holds.
        self.clock.uptime_millis().unwrap_or(i64::MAX)
    }

    fn is_within(&self, since: &AtomicI64) -> bool {
        let safe = self.lease - self.lease / MARGIN;
        self.now() < since.load(Ordering::Acquire).saturating_add(safe)
    }

    /// The lease of a claim was renewed by a call that was sent after `before`.
    pub(super) fn renew(&self, epoch: u64, before: i64) {
        if self.held.swap(epoch, Ordering::AcqRel) != epoch {
            self.taken.store(0, Ordering::Release);
        }
        self.renewed.fetch_max(before, Ordering::AcqRel);
    }

    /// Every other member has given its promise, to a question that was sent after `before`.
    pub(super) fn promise(&self, before: i64) {
        if self.holds() {
            self.promised.fetch_max(before, Ordering::AcqRel);
        }
    }

    /// Everything that was appended before the claim was applied.
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
    use crate::types::UnixSeconds;

    pub(in crate::fleet) struct Uptime(pub AtomicI64);

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
        // The log was not applied yet.
        assert!(!fence.holds() && !fence.is_lost());
        fence.take(7);
        assert!(fence.holds());
        clock.0.store(2_799, Ordering::SeqCst);
        assert!(fence.holds());
        clock.0.store(2_800, Ordering::SeqCst);
        assert!(!fence.holds() && !fence.is_lost());
        // An answer that was late: the time counts from the question.
        fence.renew(7, 900);
        assert!(!fence.holds());
        fence.renew(7, 2_800);
        assert!(fence.holds());
        // Another claim: somebody else may have had one in between.
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
        // Somebody may have been the owner since 6,100.
        fence.promise(6_100);
        assert!(!fence.holds());
        fence.renew(7, 6_100);
        assert!(fence.holds() && fence.is_leased());
    }
}
