//! Which time is believed: pure, told each reading.
//!
//! All numbers are milliseconds.

use std::fmt;

use super::tables::Mark;
use crate::ports::Clock;
use crate::types::UnixSeconds;
use crate::types::time::{DAY, HOUR};

/// A larger difference between wall clock and uptime is a jump. Time servers correct by less.
pub(super) const JUMP: i64 = HOUR * 1_000;
/// For how long a clock that jumped must agree with itself.
pub(super) const AGREEMENT: i64 = 10 * 60 * 1_000;
/// The longest downtime that is believed without a pause. It cannot be told from a clock that is
/// ahead: beyond it deletions wait for the agreement, and the service works all the same.
pub(super) const DOWNTIME: i64 = 3 * DAY * 1_000;
/// How far token time runs before it is recorded again.
pub(super) const MARK_EVERY: i64 = 60 * 1_000;

/// What the clocks show at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// The time as the service sees it, with an operator's moves.
    pub(super) now: i64,
    /// How far an operator has moved it.
    pub(super) moved: i64,
    /// Since the machine was started; `None` where every reading is believed.
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

    /// The wall clock, without the operator's moves.
    const fn wall(&self) -> i64 {
        self.now.saturating_sub(self.moved)
    }
}

/// A jump of the clock that is not believed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// By how much it jumped; negative: back.
    jump: i64,
    /// Whether a start found it, and not a running process.
    at_start: bool,
    /// The uptime since which the clock has agreed with itself.
    since: i64,
}

impl Doubt {
    /// By how many seconds the clock jumped; negative: back.
    #[must_use]
    pub const fn seconds(&self) -> i64 {
        self.jump.div_euclid(1_000)
    }
}

/// For rounding: the two clocks are not read at the same instant.
const HALF_HOUR: u64 = 30 * 60 * 1_000;

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hours = self.jump.unsigned_abs().saturating_add(HALF_HOUR) / (2 * HALF_HOUR);
        let (count, unit) = match hours {
            0..72 => (hours, "hours"),
            _ => ((hours + 12) / 24, "days"),
        };
        let to = if self.jump < 0 { "back" } else { "ahead" };
        if self.at_start {
            write!(
                f,
                "the clock stands {count} {unit} {to} of the last time recorded"
            )?;
        } else {
            write!(f, "the clock jumped {to} by {count} {unit}")?;
        }
        f.write_str(
            ": nothing is deleted by age until it has agreed with itself for ten minutes; \
             if it is right, `playgate clock accept`",
        )
    }
}

/// What an observation has changed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The clock jumped.
    Doubted(Doubt),
    /// It has agreed with itself for long enough.
    Agreed,
}

/// What is believed, as of the last reading.
#[derive(Debug)]
pub(super) struct Belief {
    /// Token time: runs with the uptime, follows the wall clock ahead where that is believed.
    token: i64,
    /// Where the wall clock stands if it has not jumped.
    wall: i64,
    last: Reading,
    doubt: Option<Doubt>,
}

impl Belief {
    /// What a start believes.
    pub(super) fn begin(mark: Option<&Mark>, boot: Option<&str>, reading: Reading) -> Self {
        let mut belief = Self {
            token: reading.now,
            wall: reading.wall(),
            last: reading,
            doubt: None,
        };
        let Some(mark) = mark else { return belief };
        let gap = reading.wall().saturating_sub(mark.wall);
        // The same run of the machine: the uptime tells how long nobody was there.
        let away = reading
            .uptime
            .filter(|up| boot.is_some() && mark.boot.as_deref() == boot && mark.uptime <= *up)
            .map(|up| up - mark.uptime);
        let (passed, jump) = match away {
            Some(away) => (away, gap.saturating_sub(away)),
            None if (-JUMP..=DOWNTIME).contains(&gap) => (gap.max(0), 0),
            // How long it was is not known. What the last run saw after its last mark counts as seen.
            None => (MARK_EVERY, gap),
        };
        belief.token = mark.token.saturating_add(passed);
        belief.wall = mark.wall.saturating_add(passed);
        match reading.uptime {
            Some(since) if jump.abs() > JUMP => {
                belief.doubt = Some(Doubt {
                    jump,
                    at_start: true,
                    since,
                });
            }
            _ => belief.believe(),
        }
        belief
    }

    /// Takes a reading.
    pub(super) fn observe(&mut self, reading: Reading) -> Option<Change> {
        let (before, moved) = (self.last, self.last.moved != reading.moved);
        self.last = reading;
        let (Some(up), Some(last_up)) = (reading.uptime, before.uptime) else {
            self.believe();
            return None;
        };
        let elapsed = up.saturating_sub(last_up).max(0);
        self.token = self.token.saturating_add(elapsed);
        self.wall = self.wall.saturating_add(elapsed);
        let jump = reading.wall() - before.wall().saturating_add(elapsed);
        let mut change = None;
        if moved {
            // An operator's word, each time: a move ahead is time that passes, also where an earlier
            // move ahead was taken back.
            self.doubt = None;
            let ahead = reading.moved.saturating_sub(before.moved).max(0);
            self.token = self.token.saturating_add(ahead);
        } else if jump.abs() > JUMP {
            let doubt = Doubt {
                jump,
                at_start: false,
                since: up,
            };
            self.doubt = Some(doubt);
            change = Some(Change::Doubted(doubt));
        } else if self
            .doubt
            .is_some_and(|doubt| up - doubt.since >= AGREEMENT)
        {
            self.doubt = None;
            change = Some(Change::Agreed);
        }
        if self.doubt.is_none() {
            self.believe();
        }
        change
    }

    /// Believes the clock as a reading shows it.
    pub(super) fn accept(&mut self, reading: Reading) {
        self.observe(reading);
        self.doubt = None;
        self.believe();
    }

    fn believe(&mut self) {
        self.wall = self.last.wall();
        self.token = self.token.max(self.last.now);
    }

    pub(super) const fn token(&self) -> i64 {
        self.token
    }

    pub(super) const fn doubt(&self) -> Option<Doubt> {
        self.doubt
    }

    /// What the next start compares its clock with.
    pub(super) fn mark(&self, boot: Option<&str>) -> Mark {
        Mark {
            token: self.token,
            wall: self.wall,
            uptime: self.last.uptime.unwrap_or_default(),
            boot: boot.map(str::to_owned),
        }
    }
}
