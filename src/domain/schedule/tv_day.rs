//! Converts local times to instants, and computes the bounds of a TV day.

use chrono::{Days, NaiveDateTime, NaiveTime, TimeZone};

use playgate_types::time::HOUR;
use playgate_types::{TvDay, UnixSeconds, Zone};

/// The instant at which clocks in `zone` show `local`. With these rules, consecutive days have
/// neither gaps nor overlaps.
pub(crate) fn instant(zone: Zone, local: NaiveDateTime) -> UnixSeconds {
    // If two instants match (clocks went back), the earlier one.
    match zone.from_local_datetime(&local).earliest() {
        Some(at) => UnixSeconds(at.timestamp()),
        // If none does (clocks went forward), the first instant with a later local time.
        None => after_gap(zone, local),
    }
}

/// The end of the gap that contains a local time.
fn after_gap(zone: Zone, local: NaiveDateTime) -> UnixSeconds {
    let wall = local.and_utc().timestamp();
    let shows_enough = |at: i64| {
        chrono::DateTime::from_timestamp(at, 0)
            .is_some_and(|utc| utc.with_timezone(&zone).naive_local() >= local)
    };
    // No zone is more than 26 hours from UTC, and none changes its clocks twice within that time.
    let (mut before, mut after) = (wall - 26 * HOUR, wall + 26 * HOUR);
    while after - before > 1 {
        let middle = before + (after - before) / 2;
        if shows_enough(middle) {
            after = middle;
        } else {
            before = middle;
        }
    }
    UnixSeconds(after)
}

/// Local time `day_start` on its date and on the next one, so 23 to 25 hours.
pub(crate) fn tv_day(zone: Zone, day: TvDay, day_start: NaiveTime) -> (UnixSeconds, UnixSeconds) {
    let date = day.date();
    let next = date.checked_add_days(Days::new(1)).unwrap_or(date);
    (
        instant(zone, date.and_time(day_start)),
        instant(zone, next.and_time(day_start)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(zone: Zone, day: &str, start: (u32, u32)) -> (i64, i64) {
        let start = NaiveTime::from_hms_opt(start.0, start.1, 0).unwrap();
        let (from, to) = tv_day(zone, TvDay::parse(day).unwrap(), start);
        (from.0, to.0)
    }

    #[test]
    fn days_have_23_24_and_25_hours() {
        let length = |day: &str| {
            let (from, to) = bounds(Zone::stored("Europe/Stockholm"), day, (6, 0));
            (to - from) / HOUR
        };
        assert_eq!(length("2026-03-27"), 24);
        assert_eq!(length("2026-03-28"), 23, "clocks go forward on the 29th");
        assert_eq!(length("2026-10-24"), 25, "clocks go back on the 25th");
        assert_eq!(
            bounds(Zone::utc(), "2026-08-22", (6, 0)),
            (1_787_378_400, 1_787_464_800)
        );
    }

    #[test]
    fn consecutive_days_have_no_gap_or_overlap_at_any_day_start() {
        // In one year 02:30 is missing on one of these days and occurs twice on another.
        for (zone, start) in [
            (Zone::stored("Europe/Stockholm"), (2, 30)),
            (Zone::stored("Pacific/Auckland"), (2, 30)),
            (Zone::stored("Australia/Lord_Howe"), (1, 45)),
            (Zone::stored("America/Sao_Paulo"), (0, 0)),
        ] {
            for year in ["2017", "2026"] {
                let mut last = None;
                for day in 0..365 {
                    let first = chrono::NaiveDate::from_ymd_opt(year.parse().unwrap(), 1, 1);
                    let date = first.unwrap() + Days::new(day);
                    let (from, to) = bounds(zone, &date.to_string(), start);
                    assert!(last.is_none_or(|last| last == from), "{zone} {date}");
                    assert!((22 * HOUR..=26 * HOUR).contains(&(to - from)));
                    last = Some(to);
                }
            }
        }
    }

    #[test]
    fn a_missing_local_time_maps_to_the_end_of_the_gap() {
        let local = |h, m| {
            let date = chrono::NaiveDate::from_ymd_opt(2026, 3, 29).unwrap();
            instant(
                Zone::stored("Europe/Stockholm"),
                date.and_hms_opt(h, m, 0).unwrap(),
            )
        };
        // 02:00 to 03:00 is missing; both ends are 01:00 UTC.
        assert_eq!(local(2, 30), local(3, 0));
        assert_eq!(local(3, 0) - HOUR, local(1, 0));
    }
}
