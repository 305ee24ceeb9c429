//! A time on the command line: Unix seconds, RFC 3339, a date, or a span such as `-15m` that counts from now.

use std::str::FromStr;
use std::time::Duration;

use chrono::{DateTime, NaiveDate};
use clap::Args;
use serde_json::Value;

use super::{Admin, path};
use crate::output::Failure;
use playgate_types::{Malformed, parse_span};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeArg {
    Instant(i64),
    /// Seconds from now.
    Span(i64),
}

impl TimeArg {
    pub(crate) fn before_now(span: Duration) -> Self {
        Self::Span(i64::try_from(span.as_secs()).map_or(i64::MIN, |seconds| -seconds))
    }

    pub(crate) const fn at(self, now: i64) -> i64 {
        match self {
            Self::Instant(seconds) => seconds,
            Self::Span(seconds) => now.saturating_add(seconds),
        }
    }
}

impl FromStr for TimeArg {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "must be a date, a time such as 2027-01-31T18:00:00Z, Unix seconds, or a span such as -15m";
        match text.starts_with('-') {
            true => signed_seconds(text).map(Self::Span).map_err(|_| wrong),
            false => instant(text).map(Self::Instant).map_err(|_| wrong),
        }
    }
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
    /// Start: a date (UTC), RFC 3339, Unix seconds, or a span before now such as -15m
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) from: Option<TimeArg>,
    /// End (exclusive), in the same form
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<TimeArg>,
}

impl TimeRange {
    pub(crate) fn seconds(&self, now: i64) -> [Option<String>; 2] {
        [self.from, self.to].map(|time| time.map(|time| time.at(now).to_string()))
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
    fn a_time_is_typed_in_three_ways() {
        let at = |text: &str| text.parse::<TimeArg>().map(|time| time.at(1_000_000));
        assert_eq!(at("1767225600"), Ok(1_767_225_600));
        assert_eq!(at("2026-01-01T00:00:00Z"), Ok(1_767_225_600));
        assert_eq!(at("-15m"), Ok(999_100));
        assert_eq!(at("-2d"), Ok(827_200));
        for wrong in ["", "-", "-m", "-15", "-1x", "--1m", "-+1m", "noon"] {
            assert!(at(wrong).is_err(), "{wrong}");
        }
    }
}
