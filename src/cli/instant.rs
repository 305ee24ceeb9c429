//! A time on the command line.

use chrono::{DateTime, NaiveDate};

/// Returns Unix seconds.
pub(super) fn instant(text: &str) -> Result<i64, &'static str> {
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
}
