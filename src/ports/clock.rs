//! The clock. It is read once per request, at the edge, and by jobs; all other code gets the time as a
//! parameter.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::types::UnixSeconds;

pub trait Clock: Send + Sync {
    fn now_millis(&self) -> i64;

    fn now(&self) -> UnixSeconds {
        UnixSeconds(self.now_millis().div_euclid(1_000))
    }

    /// Milliseconds since boot, suspension included. This clock cannot be set, so it reveals jumps of the
    /// wall clock. `None` if unavailable; jumps are then not detected.
    fn uptime_millis(&self) -> Option<i64>;

    /// Milliseconds by which an operator moved the clock. Such a move is not a jump.
    fn moved_millis(&self) -> i64 {
        0
    }
}

/// Id of the current boot, if the kernel provides one: uptimes of two boots must not be compared.
#[must_use]
pub fn boot_id() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}

#[derive(Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the port that the ban points to")]
    fn now_millis(&self) -> i64 {
        // A clock set before 1970 reads as 1970: tokens are then rejected rather than valid forever.
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| {
                i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
            })
    }

    fn uptime_millis(&self) -> Option<i64> {
        // Not CLOCK_MONOTONIC, which stands still while the machine is suspended: a resume would look like a
        // jump.
        let up = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Some(up.tv_sec.saturating_mul(1_000) + up.tv_nsec / 1_000_000)
    }
}

/// A clock for test installations that an operator can move: another clock plus an offset.
pub struct LabClock {
    base: Arc<dyn Clock>,
    offset_millis: AtomicI64,
}

impl LabClock {
    #[must_use]
    pub fn new(base: Arc<dyn Clock>) -> Self {
        Self {
            base,
            offset_millis: AtomicI64::new(0),
        }
    }

    pub fn set_now(&self, now: UnixSeconds) {
        let offset = now
            .0
            .saturating_mul(1_000)
            .saturating_sub(self.base.now_millis());
        self.offset_millis.store(offset, Ordering::SeqCst);
    }

    pub fn set_offset(&self, seconds: i64) {
        self.offset_millis
            .store(seconds.saturating_mul(1_000), Ordering::SeqCst);
    }

    #[must_use]
    pub fn offset(&self) -> i64 {
        self.offset_millis.load(Ordering::SeqCst).div_euclid(1_000)
    }
}

impl Clock for LabClock {
    fn now_millis(&self) -> i64 {
        self.base.now_millis().saturating_add(self.moved_millis())
    }

    fn uptime_millis(&self) -> Option<i64> {
        // Uptime cannot be moved: tokens measure elapsed time with it.
        self.base.uptime_millis()
    }

    fn moved_millis(&self) -> i64 {
        self.offset_millis.load(Ordering::SeqCst)
    }
}

/// A clock that only changes when a test sets it.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    #[must_use]
    pub fn at(now: UnixSeconds) -> Self {
        Self(AtomicI64::new(now.0.saturating_mul(1_000)))
    }

    pub fn set(&self, now: UnixSeconds) {
        self.0.store(now.0.saturating_mul(1_000), Ordering::SeqCst);
    }

    pub fn advance(&self, seconds: i64) {
        self.0
            .fetch_add(seconds.saturating_mul(1_000), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_millis(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    fn uptime_millis(&self) -> Option<i64> {
        None
    }
}
