//! Instants, the live offset and the TV day.

use std::fmt;
use std::ops::{Add, Sub};

use chrono::{Datelike, NaiveDate};
use serde::{Deserialize, Serialize};

use super::Malformed;

pub const HOUR: i64 = 3_600;
pub const DAY: i64 = 86_400;

/// An instant in whole Unix seconds, as in request and response bodies.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct UnixSeconds(pub i64);

impl UnixSeconds {
    /// Seconds from `earlier` to this instant; negative if `earlier` is later.
    pub const fn since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    pub fn in_utc(self) -> String {
        let time = chrono::DateTime::from_timestamp(self.0, 0);
        time.map_or_else(
            || self.to_string(),
            |time| time.format("%Y-%m-%d at %H:%M UTC").to_string(),
        )
    }

    pub fn date_in_utc(self) -> String {
        let time = chrono::DateTime::from_timestamp(self.0, 0);
        time.map_or_else(
            || self.to_string(),
            |time| time.format("%Y-%m-%d").to_string(),
        )
    }

    /// Number of the UTC day, counted from 1970-01-01.
    pub const fn utc_day(self) -> i64 {
        self.0.div_euclid(DAY)
    }

    /// In UTC; `None` beyond the calendar.
    pub fn year_and_month(self) -> Option<(i32, u32)> {
        let time = chrono::DateTime::from_timestamp(self.0, 0)?;
        Some((time.year(), time.month()))
    }
}

impl Add<i64> for UnixSeconds {
    type Output = Self;

    fn add(self, seconds: i64) -> Self {
        // Saturates: a time from a file or a request must not overflow into the past.
        Self(self.0.saturating_add(seconds))
    }
}

impl Sub<i64> for UnixSeconds {
    type Output = Self;

    fn sub(self, seconds: i64) -> Self {
        Self(self.0.saturating_sub(seconds))
    }
}

impl fmt::Display for UnixSeconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The distance back from the live point: −86400 to 0 seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LiveOffset(i32);

impl LiveOffset {
    pub const LIVE: Self = Self(0);
    pub const MIN: i32 = -86_400;

    /// Parses a decimal integer: an optional minus sign and digits. `+0`, leading zeros and `1e2` are
    /// rejected. `-0` is 0: clients that negate a distance send it.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let malformed = Malformed("must be an integer from -86400 to 0");
        let digits = text.strip_prefix('-').unwrap_or(text);
        let canonical = !digits.is_empty()
            && digits.len() <= 5
            && digits.bytes().all(|b| b.is_ascii_digit())
            // One spelling for each value: caches and signatures compare texts.
            && (digits == "0" || !digits.starts_with('0'));
        if !canonical {
            return Err(malformed);
        }
        match text.parse::<i32>() {
            Ok(value @ Self::MIN..=0) => Ok(Self(value)),
            _ => Err(malformed),
        }
    }

    pub fn before(self, now: UnixSeconds) -> UnixSeconds {
        // The server's time: a player whose clock is wrong still gets the program on air.
        now + i64::from(self.0)
    }

    pub const fn seconds(self) -> i32 {
        self.0
    }
}

/// The date of a TV day: the local date on which it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TvDay(NaiveDate);

impl TvDay {
    pub const fn from_date(date: NaiveDate) -> Self {
        Self(date)
    }

    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let malformed = Malformed("must be a date as YYYY-MM-DD");
        let shape = text.len() == 10
            && text.bytes().enumerate().all(|(at, byte)| match at {
                4 | 7 => byte == b'-',
                _ => byte.is_ascii_digit(),
            });
        if !shape {
            return Err(malformed);
        }
        // Not chrono's parser: it accepts signs, spaces and longer years.
        let number =
            |from: usize, to: usize| text.get(from..to).and_then(|t| t.parse::<u16>().ok());
        let (Some(year), Some(month), Some(day)) = (number(0, 4), number(5, 7), number(8, 10))
        else {
            return Err(malformed);
        };
        // chrono has a year 0, the interface has not.
        if year == 0 {
            return Err(malformed);
        }
        NaiveDate::from_ymd_opt(i32::from(year), u32::from(month), u32::from(day))
            .map(Self)
            .ok_or(malformed)
    }

    pub const fn date(self) -> NaiveDate {
        self.0
    }

    /// Days since 0001-01-01, for use in store keys.
    pub fn number(self) -> i32 {
        self.0.num_days_from_ce()
    }

    pub fn from_number(number: i32) -> Option<Self> {
        NaiveDate::from_num_days_from_ce_opt(number).map(Self)
    }
}

impl fmt::Display for TvDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.format("%Y-%m-%d").fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_has_one_spelling() {
        for (text, value) in [("0", 0), ("-1", -1), ("-1800", -1800), ("-86400", -86_400)] {
            assert_eq!(LiveOffset::parse(text).map(LiveOffset::seconds), Ok(value));
        }
        for bad in [
            "",
            "-",
            "1",
            "-86401",
            "+0",
            "1e2",
            "00",
            "-01",
            " 0",
            "0 ",
            "0.0",
            "−1",
            "-99999999999999999999",
        ] {
            assert!(LiveOffset::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_tv_day_is_a_date_that_exists() {
        assert_eq!(
            TvDay::parse("2024-02-29").unwrap().to_string(),
            "2024-02-29"
        );
        for bad in [
            "2024-02-30",
            "2023-02-29",
            "0000-00-00",
            "0000-01-01",
            "10000-01-01",
            "2024-1-1",
            "2024-01-01 ",
            "",
            "today",
            "2024/01/01",
            "20２4-1-1",
        ] {
            assert!(TvDay::parse(bad).is_err(), "{bad:?}");
        }
        let day = TvDay::parse("2026-08-22").unwrap();
        assert_eq!(TvDay::from_number(day.number()), Some(day));
    }

    #[test]
    fn utc_days_before_1970_are_rounded_down() {
        assert_eq!(UnixSeconds(0).utc_day(), 0);
        assert_eq!(UnixSeconds(86_399).utc_day(), 0);
        assert_eq!(UnixSeconds(-1).utc_day(), -1);
    }
}
