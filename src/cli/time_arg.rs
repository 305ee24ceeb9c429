//! A time on the command line: Unix seconds, RFC 3339, or a span such as `-15m` that counts back from now.

use std::str::FromStr;
use std::time::Duration;

use chrono::DateTime;
use clap::Args;
use serde_json::Value;

use super::admin::{Admin, path};
use super::exit::Failure;
use crate::types::parse_span;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeArg {
    Instant(i64),
    /// Seconds from now.
    Span(i64),
}

impl TimeArg {
    pub(super) fn before_now(span: Duration) -> Self {
        Self::Span(i64::try_from(span.as_secs()).map_or(i64::MIN, |seconds| -seconds))
    }

    pub(super) const fn at(self, now: i64) -> i64 {
        match self {
            Self::Instant(seconds) => seconds,
            Self::Span(seconds) => now.saturating_add(seconds),
        }
    }
}

impl FromStr for TimeArg {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong =
            "must be Unix seconds, a time such as 2027-01-31T18:00:00Z, or a span such as -15m";
        if let Some(span) = text.strip_prefix('-') {
            return parse_span(span).map(Self::before_now).map_err(|_| wrong);
        }
        let instant = DateTime::parse_from_rfc3339(text).map(|time| time.timestamp());
        let instant = instant.or_else(|_| text.parse());
        instant.map(Self::Instant).map_err(|_| wrong)
    }
}

#[derive(Args)]
pub(super) struct TimeRange {
    /// Start: Unix seconds, RFC 3339, or a span before now such as -15m
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(super) from: Option<TimeArg>,
    /// End (exclusive), in the same form
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<TimeArg>,
}

impl TimeRange {
    pub(super) fn seconds(&self, now: i64) -> [Option<String>; 2] {
        [self.from, self.to].map(|time| time.map(|time| time.at(now).to_string()))
    }
}

/// The time as the server sees it: a lab's clock may be moved.
pub(super) async fn server_time(admin: &mut Admin) -> Result<i64, Failure> {
    let clock = admin.get(&path(&["clock"])).await?;
    let now = clock.get("now").and_then(Value::as_i64);
    Ok(now.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

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
