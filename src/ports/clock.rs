//! The clock. It is read once per request, at the edge, and by jobs; all other code gets the time as a
//! parameter.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::RwLock;

use playgate_types::UnixSeconds;

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

/// A clock for test installations that an operator can move, stop and speed up.
pub struct LabClock {
    base: Arc<dyn Clock>,
    state: RwLock<LabTime>,
}

/// All values are in milliseconds. The clock shows `shown` when the base shows `anchor`, and continues from there at
/// `pace`.
#[derive(Clone, Copy)]
struct LabTime {
    anchor: i64,
    shown: i64,
    /// Thousandths of the pace of the base; 0 stops the clock.
    pace: i64,
}

impl LabTime {
    const REAL: Self = Self {
        anchor: 0,
        shown: 0,
        pace: LabClock::REAL_PACE,
    };

    const fn at(&self, base: i64) -> i64 {
        let passed = base.saturating_sub(self.anchor);
        // The product overflows only after millions of years.
        let passed = match self.pace {
            LabClock::REAL_PACE => passed,
            pace => passed.saturating_mul(pace) / LabClock::REAL_PACE,
        };
        self.shown.saturating_add(passed)
    }
}

impl LabClock {
    pub const REAL_PACE: i64 = 1_000;

    pub fn new(base: Arc<dyn Clock>) -> Self {
        Self {
            base,
            state: RwLock::new(LabTime::REAL),
        }
    }

    pub fn set_now(&self, now: UnixSeconds) {
        self.set(|_, _| now.0.saturating_mul(1_000));
    }

    pub fn set_offset(&self, seconds: i64) {
        self.set(|base, _| base.saturating_add(seconds.saturating_mul(1_000)));
    }

    pub fn advance(&self, seconds: i64) {
        self.set(|_, now| now.saturating_add(seconds.saturating_mul(1_000)));
    }

    fn set(&self, shown: impl FnOnce(i64, i64) -> i64) {
        self.change(shown, None);
    }

    fn change(&self, shown: impl FnOnce(i64, i64) -> i64, pace: Option<i64>) {
        // One lock for time and pace: two operators must not set one of them each.
        let mut state = self.state.write();
        let anchor = self.base.now_millis();
        let now = state.at(anchor);
        state.shown = shown(anchor, now);
        state.anchor = anchor;
        state.pace = pace.unwrap_or(state.pace);
    }

    /// Sets the pace in thousandths of real time; 0 stops the clock.
    pub fn set_pace(&self, pace: i64) {
        // Moves the anchor to the present, so that the new pace does not change the time shown.
        self.change(|_, now| now, Some(pace));
    }

    pub fn pace(&self) -> i64 {
        self.state.read().pace
    }

    pub fn reset(&self) {
        *self.state.write() = LabTime::REAL;
    }

    pub fn offset(&self) -> i64 {
        self.moved_millis().div_euclid(1_000)
    }
}

impl Clock for LabClock {
    fn now_millis(&self) -> i64 {
        self.state.read().at(self.base.now_millis())
    }

    fn uptime_millis(&self) -> Option<i64> {
        // Uptime cannot be moved: tokens measure elapsed time with it.
        self.base.uptime_millis()
    }

    fn moved_millis(&self) -> i64 {
        let base = self.base.now_millis();
        self.state.read().at(base).saturating_sub(base)
    }
}

/// A clock that only changes when a test sets it.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lab_clock_moves_stops_and_runs_at_another_pace() {
        let base = Arc::new(ManualClock::at(UnixSeconds(1_000)));
        let lab = LabClock::new(Arc::clone(&base) as Arc<dyn Clock>);
        let at = |shown: i64, offset: i64| {
            assert_eq!((lab.now(), lab.offset()), (UnixSeconds(shown), offset));
        };
        at(1_000, 0);
        lab.set_now(UnixSeconds(5_000));
        base.advance(10);
        at(5_010, 4_000);
        lab.set_pace(0);
        base.advance(100);
        at(5_010, 3_900);
        // A stopped clock can be moved and stays stopped.
        lab.advance(-10);
        base.advance(1);
        at(5_000, 3_889);
        lab.set_pace(60_000);
        base.advance(2);
        at(5_120, 4_007);
        lab.set_pace(500);
        base.advance(4);
        at(5_122, 4_005);
        lab.set_pace(LabClock::REAL_PACE);
        lab.set_offset(-100);
        base.advance(7);
        at(1_024, -100);
        lab.reset();
        at(1_124, 0);
    }
}
