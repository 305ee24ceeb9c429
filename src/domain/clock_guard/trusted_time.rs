//! Decides which time is trusted. It is pure: clock readings are arguments, and nothing is stored.
//!
//! All numbers are milliseconds.

use std::fmt;

use super::tables::HighWaterMark;
use playgate_ports::Clock;
use playgate_types::UnixSeconds;
use playgate_types::time::{DAY, HOUR};

/// A larger difference between wall clock and uptime counts as a jump. NTP corrects by less.
pub(super) const JUMP_MILLIS: i64 = HOUR * 1_000;
/// The time that a clock must run consistently after a jump before it is trusted.
pub(super) const CONSISTENT_FOR: i64 = 10 * 60 * 1_000;
/// The longest downtime that a start accepts. A longer one cannot be distinguished from a clock that is ahead:
/// then deletions wait for [`CONSISTENT_FOR`], while the service works normally.
pub(super) const DOWNTIME_MAX_MILLIS: i64 = 3 * DAY * 1_000;
/// Milliseconds between two records of the token time.
pub(super) const MARK_EVERY: i64 = 60 * 1_000;

#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// The service's time: the wall clock plus the operator's shift.
    pub(super) now: i64,
    pub(super) moved: i64,
    /// Time since boot; `None` if every reading is trusted.
    pub(super) uptime: Option<i64>,
}

impl Reading {
    pub(super) fn read(clock: &dyn Clock) -> Self {
        let moved = clock.moved_millis();
        Self {
            now: clock.now_millis(),
            moved,
            uptime: clock.uptime_millis(),
        }
    }

    pub(super) fn seconds(&self) -> UnixSeconds {
        UnixSeconds(self.now.div_euclid(1_000))
    }

    const fn wall(&self) -> i64 {
        self.now.saturating_sub(self.moved)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockJump {
    /// Size of the jump; negative if backwards.
    jump: i64,
    at_start: bool,
    since: i64,
}

impl ClockJump {
    pub const fn seconds(&self) -> i64 {
        self.jump.div_euclid(1_000)
    }
}

const HALF_HOUR: u64 = 30 * 60 * 1_000;

impl fmt::Display for ClockJump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rounded to whole hours, since the two clocks are not read at the same instant.
        let hours = self.jump.unsigned_abs().saturating_add(HALF_HOUR) / (2 * HALF_HOUR);
        let (count, unit) = match hours {
            0..72 => (hours, "hours"),
            _ => ((hours + 12) / 24, "days"),
        };
        let back = self.jump < 0;
        if self.at_start {
            let to = if back { "behind" } else { "ahead of" };
            write!(f, "the clock is {count} {unit} {to} the last recorded time")?;
        } else {
            let to = if back { "back" } else { "ahead" };
            write!(f, "the clock jumped {to} by {count} {unit}")?;
        }
        f.write_str(
            ": nothing is deleted by age until it has been consistent for ten minutes; \
             if it is right, run `playgate clock accept`",
        )
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum TrustChange {
    JumpFound(ClockJump),
    Trusted,
}

#[derive(Debug)]
pub(super) struct TrustedTime {
    /// Token time: advances with the uptime, and follows the trusted wall clock forward.
    token: i64,
    /// The wall clock as expected if it has not jumped.
    wall: i64,
    last: Reading,
    untrusted_jump: Option<ClockJump>,
}

impl TrustedTime {
    /// Compares the first reading of a process with the mark of the previous one.
    pub(super) fn begin(
        mark: Option<&HighWaterMark>,
        boot: Option<&str>,
        reading: Reading,
    ) -> Self {
        let mut trusted_time = Self {
            token: reading.now,
            wall: reading.wall(),
            last: reading,
            untrusted_jump: None,
        };
        // A new store has nothing to compare with.
        let Some(mark) = mark else {
            return trusted_time;
        };
        let gap = reading.wall().saturating_sub(mark.wall);
        // Same boot: the difference of the uptimes is the exact downtime.
        let downtime = reading
            .uptime
            .filter(|up| boot.is_some() && mark.boot.as_deref() == boot && mark.uptime <= *up)
            .map(|up| up - mark.uptime);
        let (passed, jump) = match downtime {
            Some(downtime) => (downtime, gap.saturating_sub(downtime)),
            // After a reboot the exact downtime is unknown; a plausible one is accepted.
            None if (-JUMP_MILLIS..=DOWNTIME_MAX_MILLIS).contains(&gap) => (gap.max(0), 0),
            // The downtime is unknown. Count the time that the last process may have run after its last mark.
            None => (MARK_EVERY, gap),
        };
        trusted_time.token = mark.token.saturating_add(passed);
        trusted_time.wall = mark.wall.saturating_add(passed);
        match reading.uptime {
            // Without an uptime, as on a manual clock, every reading is trusted.
            Some(since) if jump.abs() > JUMP_MILLIS => {
                trusted_time.untrusted_jump = Some(ClockJump {
                    jump,
                    at_start: true,
                    since,
                });
            }
            _ => trusted_time.trust(),
        }
        trusted_time
    }

    pub(super) fn observe(&mut self, reading: Reading) -> Option<TrustChange> {
        let (before, moved) = (self.last, self.last.moved != reading.moved);
        self.last = reading;
        // Without two uptimes a jump cannot be detected, so the reading is trusted.
        let (Some(up), Some(last_up)) = (reading.uptime, before.uptime) else {
            self.trust();
            return None;
        };
        let elapsed = up.saturating_sub(last_up).max(0);
        // Token time advances with the uptime, so that a wall clock that goes back does not revive expired tokens.
        self.token = self.token.saturating_add(elapsed);
        self.wall = self.wall.saturating_add(elapsed);
        // Compared with the previous reading only, so that slow corrections by NTP do not add up to a jump.
        let jump = reading.wall() - before.wall().saturating_add(elapsed);
        let mut change = None;
        if moved {
            // An operator's shift is always trusted. Each shift forward counts as elapsed time, even after an
            // earlier one was undone.
            self.untrusted_jump = None;
            let ahead = reading.moved.saturating_sub(before.moved).max(0);
            self.token = self.token.saturating_add(ahead);
        } else if jump.abs() > JUMP_MILLIS {
            let untrusted_jump = ClockJump {
                jump,
                at_start: false,
                since: up,
            };
            self.untrusted_jump = Some(untrusted_jump);
            change = Some(TrustChange::JumpFound(untrusted_jump));
        // After ten consistent minutes the clock is trusted: NTP, for example, has corrected it.
        } else if self
            .untrusted_jump
            .is_some_and(|untrusted_jump| up - untrusted_jump.since >= CONSISTENT_FOR)
        {
            self.untrusted_jump = None;
            change = Some(TrustChange::Trusted);
        }
        if self.untrusted_jump.is_none() {
            self.trust();
        }
        change
    }

    pub(super) fn accept(&mut self, reading: Reading) {
        self.observe(reading);
        self.untrusted_jump = None;
        self.trust();
    }

    fn trust(&mut self) {
        // Token time never decreases, whatever the wall clock shows.
        self.wall = self.last.wall();
        self.token = self.token.max(self.last.now);
    }

    pub(super) const fn token(&self) -> i64 {
        self.token
    }

    pub(super) const fn untrusted_jump(&self) -> Option<ClockJump> {
        self.untrusted_jump
    }

    pub(super) fn mark(&self, boot: Option<&str>) -> HighWaterMark {
        HighWaterMark {
            token: self.token,
            wall: self.wall,
            uptime: self.last.uptime.unwrap_or_default(),
            boot: boot.map(str::to_owned),
        }
    }
}
