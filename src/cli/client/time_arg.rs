//! A time on the command line: Unix seconds, RFC 3339, a date, a time of the day in `schedule.zone`, or a span such as `-15m` that
//! counts from now.

use std::str::FromStr;
use std::time::Duration;

use chrono::{DateTime, Days, NaiveDate, NaiveTime, TimeDelta, TimeZone as _};
use clap::Args;
use serde_json::Value;

use super::{Admin, path};
use crate::output::{self, Failure};
use playgate_types::{Malformed, Zone, parse_span};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeArg {
    Instant(i64),
    /// Seconds from now.
    Span(i64),
    /// In the zone of the configuration, which is not read yet when the command line is parsed.
    Local(Day, NaiveTime),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Day {
    Date(NaiveDate),
    /// Days before today.
    Back(u64),
    /// The day on which the time came last.
    Last,
}

impl TimeArg {
    pub(crate) fn before_now(span: Duration) -> Self {
        Self::Span(i64::try_from(span.as_secs()).map_or(i64::MIN, |seconds| -seconds))
    }

    pub(crate) fn at(self, now: i64) -> i64 {
        self.in_zone(output::zone(), now)
    }

    fn in_zone(self, zone: Zone, now: i64) -> i64 {
        match self {
            Self::Instant(seconds) => seconds,
            Self::Span(seconds) => now.saturating_add(seconds),
            Self::Local(day, time) => {
                let today = DateTime::from_timestamp(now, 0).unwrap_or_default();
                let today = today.with_timezone(&zone).date_naive();
                let back = |days| today.checked_sub_days(Days::new(days)).unwrap_or(today);
                match day {
                    Day::Date(day) => local(zone, day, time),
                    Day::Back(days) => local(zone, back(days), time),
                    Day::Last => match local(zone, today, time) {
                        later if later > now => local(zone, back(1), time),
                        earlier => earlier,
                    },
                }
            }
        }
    }
}

impl FromStr for TimeArg {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "must be a time such as 20:14, \"yesterday 20:14\", \"2027-01-31 18:00\" or 2027-01-31T18:00:00Z, a date, Unix seconds, or a span such as -15m";
        if let Some((day, time)) = local_time(text) {
            return Ok(Self::Local(day, time));
        }
        match text.starts_with('-') {
            true => signed_seconds(text).map(Self::Span).map_err(|_| wrong),
            false => instant(text).map(Self::Instant).map_err(|_| wrong),
        }
    }
}

/// Parses what people say: a time of the day, alone or behind a day, or a day.
fn local_time(text: &str) -> Option<(Day, NaiveTime)> {
    let time = |text: &str| {
        let seconds = || NaiveTime::parse_from_str(text, "%H:%M:%S");
        NaiveTime::parse_from_str(text, "%H:%M")
            .or_else(|_| seconds())
            .ok()
    };
    let day = |text: &str| match text {
        "today" => Some(Day::Back(0)),
        "yesterday" => Some(Day::Back(1)),
        _ => NaiveDate::parse_from_str(text, "%Y-%m-%d")
            .ok()
            .map(Day::Date),
    };
    match text.split_once([' ', 'T']) {
        Some((first, second)) => Some((day(first)?, time(second)?)),
        None => match day(text) {
            Some(day) => Some((day, NaiveTime::MIN)),
            None => Some((Day::Last, time(text)?)),
        },
    }
}

/// Returns Unix seconds. An hour that comes twice is the first one; in the hour that is left out the clock is set on.
fn local(zone: Zone, day: NaiveDate, time: NaiveTime) -> i64 {
    let at = day.and_time(time);
    let found = zone.from_local_datetime(&at).earliest();
    let found = found.or_else(|| {
        zone.from_local_datetime(&(at + TimeDelta::hours(1)))
            .earliest()
    });
    found.map_or_else(|| at.and_utc().timestamp(), |found| found.timestamp())
}

/// Returns Unix seconds.
pub(crate) fn instant(text: &str) -> Result<i64, &'static str> {
    let day = NaiveDate::parse_from_str(text, "%Y-%m-%d")
        .ok()
        .and_then(|day| day.and_hms_opt(0, 0, 0));
    if let Some(begin) = day {
        return Ok(begin.and_utc().timestamp());
    }
    let time = DateTime::parse_from_rfc3339(text).map(|time| time.timestamp());
    time.or_else(|_| text.parse())
        .map_err(|_| "must be a date, a date with time, or Unix seconds")
}

/// Returns the seconds of a span such as `2h` or `-15m`.
pub(crate) fn signed_seconds(text: &str) -> Result<i64, Malformed> {
    let (sign, span) = match text.strip_prefix('-') {
        Some(span) => (-1, span),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let span = parse_span(span)?;
    Ok(sign * i64::try_from(span.as_secs()).unwrap_or(i64::MAX))
}

#[derive(Args)]
pub(crate) struct TimeRange {
    /// Start: 20:14 or "yesterday 20:14" in `schedule.zone`, a date, RFC 3339, Unix seconds, or a span before now such as
    /// -15m
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) from: Option<TimeArg>,
    /// End (exclusive), in the same form
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<TimeArg>,
}

impl TimeRange {
    pub(crate) fn instants(&self, now: i64) -> [Option<i64>; 2] {
        [self.from, self.to].map(|time| time.map(|time| time.at(now)))
    }

    pub(crate) fn seconds(&self, now: i64) -> [Option<String>; 2] {
        self.instants(now)
            .map(|time| time.map(|time| time.to_string()))
    }
}

/// The time as the server sees it: a lab's clock may be moved.
pub(crate) async fn server_time(admin: &mut Admin) -> Result<i64, Failure> {
    let clock = admin.get(&path(&["clock"])).await?;
    let now = clock.get("now").and_then(Value::as_i64);
    Ok(now.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_typed_in_three_ways() {
        for text in ["2027-01-31", "2027-01-31T01:00:00+01:00", "1801353600"] {
            assert_eq!(instant(text), Ok(1_801_353_600), "{text}");
        }
        for text in ["", "tomorrow", "2027-02-30", "2027-01-31 18:00", "1e9"] {
            assert!(instant(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_time_of_the_day_is_that_of_the_zone() {
        // 2026-10-25 00:30 UTC is 02:30 in Stockholm, where the clock is set back half an hour later.
        let now = 1_792_888_200;
        let stockholm: Zone = "Europe/Stockholm".parse().unwrap();
        let at = |text: &str| text.parse::<TimeArg>().unwrap().in_zone(stockholm, now);
        for (text, utc) in [
            ("02:14", "2026-10-25T00:14:00Z"),
            // It has not come yet today.
            ("20:14", "2026-10-24T18:14:00Z"),
            ("today 20:14", "2026-10-25T19:14:00Z"),
            ("yesterday 20:14", "2026-10-24T18:14:00Z"),
            ("2026-10-26 20:14:30", "2026-10-26T19:14:30Z"),
            ("2026-10-26T20:14", "2026-10-26T19:14:00Z"),
            ("2026-10-25", "2026-10-24T22:00:00Z"),
            // Twice, and never.
            ("2026-10-25 02:15", "2026-10-25T00:15:00Z"),
            ("2026-03-29 02:15", "2026-03-29T01:15:00Z"),
        ] {
            assert_eq!(Ok(at(text)), instant(utc), "{text}");
        }
    }

    #[test]
    fn a_time_is_typed_in_three_ways() {
        let at = |text: &str| text.parse::<TimeArg>().map(|time| time.at(1_000_000));
        assert_eq!(at("1767225600"), Ok(1_767_225_600));
        assert_eq!(at("2026-01-01T00:00:00Z"), Ok(1_767_225_600));
        assert_eq!(at("-15m"), Ok(999_100));
        assert_eq!(at("-2d"), Ok(827_200));
        for wrong in [
            "",
            "25:00",
            "20:14 yesterday",
            "tomorrow 20:14",
            "-",
            "-m",
            "-15",
            "-1x",
            "--1m",
            "-+1m",
            "noon",
        ] {
            assert!(at(wrong).is_err(), "{wrong}");
        }
    }
}
