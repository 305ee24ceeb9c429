//! Local hours of the day: the watershed, and time windows of rules.

use chrono::{DateTime, Timelike as _};
use serde::{Deserialize, Serialize};

use playgate_types::{Malformed, UnixSeconds, Zone};

const DAY_MINUTES: u16 = 24 * 60;

/// Hours of a day, half open. They span midnight if `to` is smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hours {
    from: u16,
    to: u16,
}

impl Hours {
    pub const NIGHT: Self = Self {
        from: 22 * 60,
        to: 6 * 60,
    };

    /// `HH:MM`; `24:00` is midnight.
    pub fn parse(from: &str, to: &str) -> Result<Self, Malformed> {
        Ok(Self {
            from: minute(from)?,
            to: minute(to)?,
        })
    }

    pub fn contains(self, at: UnixSeconds, zone: Zone) -> bool {
        let Some(utc) = DateTime::from_timestamp(at.0, 0) else {
            // Out of calendar range: fail closed, so that a PIN is required.
            return true;
        };
        // Every instant has one local time, so clock changes need no special case.
        let local = utc.with_timezone(&zone).time();
        let minute = local.hour() * 60 + local.minute();
        let (from, to) = (u32::from(self.from), u32::from(self.to));
        // `from` > `to` spans midnight.
        if from < to {
            from <= minute && minute < to
        } else {
            // Equal times mean the whole day: asking for a PIN too often is the safe choice.
            from <= minute || minute < to
        }
    }

    pub fn texts(self) -> [String; 2] {
        [self.from, self.to].map(|minute| format!("{:02}:{:02}", minute / 60, minute % 60))
    }
}

fn minute(text: &str) -> Result<u16, Malformed> {
    let malformed = Malformed("must be a time of day as HH:MM");
    let digits = text.len() == 5
        && text.bytes().enumerate().all(|(at, byte)| match at {
            2 => byte == b':',
            _ => byte.is_ascii_digit(),
        });
    if !digits {
        return Err(malformed);
    }
    let number = |from, to| text.get(from..to).and_then(|t| t.parse::<u16>().ok());
    match (number(0, 2), number(3, 5)) {
        (Some(hour), Some(minute)) if minute < 60 && hour * 60 + minute <= DAY_MINUTES => {
            // `24:00` becomes 0, which is midnight as well.
            Ok((hour * 60 + minute) % DAY_MINUTES)
        }
        _ => Err(malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> UnixSeconds {
        UnixSeconds(DateTime::parse_from_rfc3339(text).unwrap().timestamp())
    }

    #[test]
    fn night_spans_midnight() {
        let zone = Zone::stored("Europe/Stockholm");
        for (time, night) in [
            ("2026-01-10T21:59:59+01:00", false),
            ("2026-01-10T22:00:00+01:00", true),
            ("2026-01-10T23:59:59+01:00", true),
            ("2026-01-11T00:00:00+01:00", true),
            ("2026-01-11T05:59:59+01:00", true),
            ("2026-01-11T06:00:00+01:00", false),
            ("2026-01-11T12:00:00+01:00", false),
        ] {
            assert_eq!(Hours::NIGHT.contains(at(time), zone), night, "{time}");
        }
    }

    #[test]
    fn hours_use_the_local_time_of_the_zone() {
        // 21:30 in London is 22:30 in Stockholm.
        let evening = at("2026-01-10T21:30:00Z");
        assert!(!Hours::NIGHT.contains(evening, Zone::stored("Europe/London")));
        assert!(Hours::NIGHT.contains(evening, Zone::stored("Europe/Stockholm")));
    }

    #[test]
    fn night_follows_clock_changes() {
        let zone = Zone::stored("Europe/Stockholm");
        // 29 March 2026: 02:00 becomes 03:00, so 06:00 is 04:00 UTC, an hour earlier.
        for (time, night) in [
            ("2026-03-29T00:59:59Z", true),
            ("2026-03-29T01:00:00Z", true),
            ("2026-03-29T03:59:59Z", true),
            ("2026-03-29T04:00:00Z", false),
            ("2026-03-28T05:00:00Z", false),
            ("2026-03-29T19:59:59Z", false),
            ("2026-03-29T20:00:00Z", true),
        ] {
            assert_eq!(Hours::NIGHT.contains(at(time), zone), night, "{time}");
        }
        // 25 October 2026: 03:00 becomes 02:00; both 02:30s are in the range.
        for time in [
            "2026-10-25T00:30:00Z",
            "2026-10-25T01:30:00Z",
            "2026-10-25T04:59:59Z",
        ] {
            assert!(Hours::NIGHT.contains(at(time), zone), "{time}");
        }
        assert!(!Hours::NIGHT.contains(at("2026-10-25T05:00:00Z"), zone));
    }

    #[test]
    fn hours_are_parsed_and_formatted() {
        assert_eq!(Hours::parse("22:00", "06:00"), Ok(Hours::NIGHT));
        assert_eq!(Hours::NIGHT.texts(), ["22:00", "06:00"]);
        let evening = Hours::parse("20:00", "24:00").unwrap();
        assert!(evening.contains(at("2026-01-10T23:59:00Z"), Zone::utc()));
        assert!(!evening.contains(at("2026-01-10T00:00:00Z"), Zone::utc()));
        let always = Hours::parse("06:00", "06:00").unwrap();
        assert!(always.contains(at("2026-01-10T05:00:00Z"), Zone::utc()));
        for bad in ["", "6:00", "06:60", "24:01", "25:00", "06.00", "0a:00"] {
            assert!(Hours::parse(bad, "06:00").is_err(), "{bad}");
        }
    }
}
