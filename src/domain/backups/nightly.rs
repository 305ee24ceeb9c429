//! Computes when the nightly backup is due.

use chrono::{DateTime, Days, NaiveTime};

use crate::schedule::tv_day::instant;
use playgate_types::{UnixSeconds, Zone};

/// The last time up to `now` at which local time in `zone` showed `at`, or skipped it (clock
/// change).
pub(super) fn last_night(now: UnixSeconds, at: NaiveTime, zone: Zone) -> UnixSeconds {
    let today = DateTime::from_timestamp(now.0, 0)
        .unwrap_or_default()
        .with_timezone(&zone)
        .date_naive();
    let before = |days| {
        let day = today.checked_sub_days(Days::new(days)).unwrap_or(today);
        instant(zone, day.and_time(at))
    };
    [before(0), before(1)]
        // Local time may have shown `at` today or not yet.
        .into_iter()
        .find(|night| *night <= now)
        // The zone skipped a whole day.
        .unwrap_or_else(|| before(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> UnixSeconds {
        UnixSeconds(DateTime::parse_from_rfc3339(text).unwrap().timestamp())
    }

    fn night(now: &str, zone: Zone) -> UnixSeconds {
        last_night(at(now), NaiveTime::from_hms_opt(3, 30, 0).unwrap(), zone)
    }

    #[test]
    fn nightly_time_is_local_to_the_zone() {
        let utc = Zone::utc();
        assert_eq!(
            night("2026-01-05T03:29:59Z", utc),
            at("2026-01-04T03:30:00Z")
        );
        assert_eq!(
            night("2026-01-05T03:30:00Z", utc),
            at("2026-01-05T03:30:00Z")
        );
        let stockholm = Zone::stored("Europe/Stockholm");
        assert_eq!(
            night("2026-01-05T02:30:00Z", stockholm),
            at("2026-01-05T02:30:00Z")
        );
        assert_eq!(
            night("2026-07-05T02:00:00Z", stockholm),
            at("2026-07-05T01:30:00Z")
        );
    }

    #[test]
    fn night_of_a_clock_change_has_one_backup() {
        let stockholm = Zone::stored("Europe/Stockholm");
        let half_past_two = NaiveTime::from_hms_opt(2, 30, 0).unwrap();
        let night = |now| last_night(at(now), half_past_two, stockholm);
        // 02:30 is skipped: it counts as 03:00.
        assert_eq!(night("2026-03-29T01:10:00Z"), at("2026-03-29T01:00:00Z"));
        assert_eq!(night("2026-03-29T12:00:00Z"), at("2026-03-29T01:00:00Z"));
        // 02:30 occurs twice: the first counts.
        assert_eq!(night("2026-10-25T00:30:00Z"), at("2026-10-25T00:30:00Z"));
        assert_eq!(night("2026-10-25T01:45:00Z"), at("2026-10-25T00:30:00Z"));
    }
}
