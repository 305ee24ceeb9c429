//! The clock. It is read once per request, at the edge, and by jobs; everything below is told the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::types::UnixSeconds;

/// A source of wall-clock time.
pub trait Clock: Send + Sync {
    /// The instant, in milliseconds since 1970.
    fn now_millis(&self) -> i64;

    /// The instant in whole seconds.
    fn now(&self) -> UnixSeconds {
        UnixSeconds(self.now_millis().div_euclid(1_000))
    }

    /// Milliseconds since the machine was started, suspension included: nobody sets that clock, so
    /// it shows when somebody sets the other one. `None` if there is none; every reading is then
    /// believed.
    fn uptime_millis(&self) -> Option<i64>;

    /// How far an operator has moved the clock, in milliseconds. Such a move is no jump.
    fn moved_millis(&self) -> i64 {
        0
    }
}

/// Names the present run of the machine, where the kernel tells it: uptimes of two runs do not
/// compare.
#[must_use]
pub fn boot_id() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}

/// The machine's clock.
#[derive(Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the port that the ban points to")]
    fn now_millis(&self) -> i64 {
        // A clock set before 1970 reads as 1970: tokens are then refused, not eternal.
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| {
                i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
            })
    }

    fn uptime_millis(&self) -> Option<i64> {
        let up = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Some(up.tv_sec.saturating_mul(1_000) + up.tv_nsec / 1_000_000)
    }
}

/// A clock that an operator of a lab can move: another clock plus an offset.
pub struct LabClock {
    base: Arc<dyn Clock>,
    offset_millis: AtomicI64,
}

impl LabClock {
    /// A clock that runs with `base` until it is moved.
    #[must_use]
    pub fn new(base: Arc<dyn Clock>) -> Self {
        Self {
            base,
            offset_millis: AtomicI64::new(0),
        }
    }

    /// Runs on from `now`.
    pub fn set_now(&self, now: UnixSeconds) {
        let offset = now
            .0
            .saturating_mul(1_000)
            .saturating_sub(self.base.now_millis());
        self.offset_millis.store(offset, Ordering::SeqCst);
    }

    /// Runs `seconds` away from the base.
    pub fn set_offset(&self, seconds: i64) {
        self.offset_millis
            .store(seconds.saturating_mul(1_000), Ordering::SeqCst);
    }

    /// How far the clock is moved, in seconds.
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
        self.base.uptime_millis()
    }

    fn moved_millis(&self) -> i64 {
        self.offset_millis.load(Ordering::SeqCst)
    }
}

/// A clock that stands still until a test moves it.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock that stands at `now`.
    #[must_use]
    pub fn at(now: UnixSeconds) -> Self {
        Self(AtomicI64::new(now.0.saturating_mul(1_000)))
    }

    /// Moves it to `now`.
    pub fn set(&self, now: UnixSeconds) {
        self.0.store(now.0.saturating_mul(1_000), Ordering::SeqCst);
    }

    /// Moves it on by `seconds`.
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
