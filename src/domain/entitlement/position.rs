//! The rights at a position: whether what a livestream shows at one instant may be watched now.
//!
//! Entitlement, license and heartbeat must all use [`PositionRights::check`]: a position that one of them
//! refuses must not be reachable through another.

use super::model::Denied;
use crate::catalog::Livestream;
use crate::schedule::{self, Program};
use playgate_types::UnixSeconds;
use playgate_types::time::{DAY, HOUR};

/// Seconds around now that count as the live point: players buffer some segments, and clocks differ.
const LIVE_SECONDS: i64 = 60;
/// Maximum time-shift in seconds. `offset` reaches back a day, and a player that pauses there falls further behind. An
/// earlier position is not a Unix time: some players count from their start.
const SHIFT_MAX: i64 = 25 * HOUR;

pub fn checked_position(claimed: UnixSeconds, now: UnixSeconds) -> UnixSeconds {
    if (-SHIFT_MAX..=LIVE_SECONDS).contains(&claimed.since(now)) {
        claimed
    } else {
        // No player can be at this position, so it is treated as the live point.
        now
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PositionRights {
    /// The first second after the program.
    pub stop: UnixSeconds,
    pub live: bool,
    pub start_over: bool,
    /// Has an effect only with `live`.
    pub rewind: bool,
    /// A half-open interval.
    pub catchup: Option<(UnixSeconds, UnixSeconds)>,
    pub live_by_default: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withheld {
    NoLiveRights {
        /// Other programs of the livestream may be watched live.
        by_default: bool,
    },
    /// The position is behind the live point, and no right covers it.
    NotAvailable,
}

impl From<Withheld> for Denied {
    fn from(withheld: Withheld) -> Self {
        match withheld {
            Withheld::NoLiveRights { .. } => Self::NoLiveRights,
            Withheld::NotAvailable => Self::NotAvailable,
        }
    }
}

impl PositionRights {
    pub fn at(
        schedule: &schedule::snapshot::ScheduleSnapshot,
        livestream: &Livestream,
        position: UnixSeconds,
    ) -> (Self, Option<Program>) {
        match schedule.program_at(&livestream.id, position) {
            Some(program) => (Self::for_program(livestream, &program), Some(program)),
            None => (
                Self::in_gap(livestream, schedule.span_at(&livestream.id, position)),
                None,
            ),
        }
    }

    pub fn for_program(livestream: &Livestream, program: &Program) -> Self {
        Self {
            stop: program.stop(),
            live: program.live(),
            start_over: program.start_over(),
            rewind: program.rewind(),
            catchup: program.catchup(),
            live_by_default: livestream.live_rights,
        }
    }

    // The livestream's defaults apply, as if the gap were a program.
    fn in_gap(livestream: &Livestream, (from, to): (UnixSeconds, UnixSeconds)) -> Self {
        let days = i64::from(livestream.catchup_days);
        // A livestream without a schedule is one endless gap. Its catch-up opens at the start of the gap, unless
        // that would show what may not be watched live.
        let opens = if livestream.live_rights || livestream.start_over {
            from
        } else {
            to
        };
        Self {
            stop: to,
            live: livestream.live_rights,
            start_over: livestream.start_over,
            rewind: livestream.extended.rewind,
            catchup: (days > 0).then(|| (opens, to + days * DAY)),
            live_by_default: livestream.live_rights,
        }
    }

    pub fn check(&self, position: UnixSeconds, now: UnixSeconds) -> Result<(), Withheld> {
        let on_air = now < self.stop;
        let caught_up = self
            .catchup
            .is_some_and(|(from, to)| from <= now && now < to);
        let no_live_rights = Withheld::NoLiveRights {
            by_default: self.live_by_default,
        };
        if position.since(now) >= -LIVE_SECONDS {
            // A player that buffers shows the end of a program after its stop; from then on its catch-up
            // right counts as well.
            let allowed = self.live || (!on_air && caught_up);
            return allowed.then_some(()).ok_or(no_live_rights);
        }
        // Behind the live point: start-over or rewind while on air, catch-up in its window.
        let while_on_air = self.start_over || (self.live && self.rewind);
        if (on_air && while_on_air) || caught_up {
            return Ok(());
        }
        Err(if on_air && !self.live {
            no_live_rights
        } else {
            Withheld::NotAvailable
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixSeconds = UnixSeconds(1_800_000_000);

    /// A program that began an hour ago; `stop` is relative to now.
    fn rights(stop: i64) -> PositionRights {
        PositionRights {
            stop: NOW + stop,
            live: true,
            start_over: false,
            rewind: false,
            catchup: None,
            live_by_default: true,
        }
    }

    const DARK: Result<(), Withheld> = Err(Withheld::NoLiveRights { by_default: true });
    const NEVER_LIVE: Result<(), Withheld> = Err(Withheld::NoLiveRights { by_default: false });
    const UNAVAILABLE: Result<(), Withheld> = Err(Withheld::NotAvailable);

    #[test]
    fn a_position_is_live_within_a_minute() {
        let plain = rights(600);
        for (shift, expected) in [(60, Ok(())), (0, Ok(())), (-60, Ok(())), (-61, UNAVAILABLE)] {
            assert_eq!(plain.check(NOW + shift, NOW), expected, "{shift}");
        }
    }

    #[test]
    fn each_right_applies_while_the_program_is_on_air() {
        let cases = [
            // live, start_over, rewind, by default; at the live point, earlier
            (true, false, false, true, Ok(()), UNAVAILABLE),
            (true, true, false, true, Ok(()), Ok(())),
            (true, false, true, true, Ok(()), Ok(())),
            (false, false, false, true, DARK, DARK),
            (false, true, false, true, DARK, Ok(())),
            (false, false, true, true, DARK, DARK),
            (false, false, true, false, NEVER_LIVE, NEVER_LIVE),
            (false, true, false, false, NEVER_LIVE, Ok(())),
        ];
        for (live, start_over, rewind, live_by_default, at_live, earlier) in cases {
            let rights = PositionRights {
                live,
                start_over,
                rewind,
                live_by_default,
                ..rights(600)
            };
            assert_eq!(rights.check(NOW, NOW), at_live, "{rights:?}");
            assert_eq!(rights.check(NOW - 600, NOW), earlier, "{rights:?}");
        }
    }

    #[test]
    fn a_finished_program_needs_a_catchup_right() {
        let all = PositionRights {
            start_over: true,
            rewind: true,
            ..rights(-300)
        };
        assert_eq!(all.check(NOW - 600, NOW), UNAVAILABLE);
        let window = |from, to| PositionRights {
            live: false,
            catchup: Some((NOW + from, NOW + to)),
            ..rights(-10)
        };
        for (from, to, expected) in [(0, 1, Ok(())), (1, 2, UNAVAILABLE), (-9, 0, UNAVAILABLE)] {
            assert_eq!(window(from, to).check(NOW - 600, NOW), expected);
        }
        // The last seconds of a blackout on a player that is slightly behind.
        assert_eq!(window(0, 1).check(NOW - 30, NOW), Ok(()));
        assert_eq!(window(1, 2).check(NOW - 30, NOW), DARK);
    }

    #[test]
    fn an_impossible_position_is_checked_as_the_live_point() {
        for shift in [60, 0, -60, -90_000] {
            assert_eq!(checked_position(NOW + shift, NOW), NOW + shift);
        }
        for claimed in [
            NOW + 61,
            NOW - 90_001,
            UnixSeconds(0),
            UnixSeconds(i64::MIN),
            UnixSeconds(i64::MAX),
        ] {
            assert_eq!(checked_position(claimed, NOW), NOW);
        }
    }
}
