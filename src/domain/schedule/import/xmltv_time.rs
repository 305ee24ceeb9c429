//! Parses times of guides: `20260822162500 +0200`, of which parts and the zone may be missing, and those of ISO 8601.
//!
//! Whatever has one reading only is read; what has two (`IST` without a zone that has it) is refused.

use chrono::{Days, NaiveDate, NaiveDateTime, TimeDelta, TimeZone as _};

use crate::schedule::tv_day;
use playgate_types::time::HOUR;
use playgate_types::{UnixSeconds, Zone};

/// Abbreviations of time zones with their offsets in minutes. Ambiguous ones (IST, CST, …) are read if the zone of the
/// source has them, and not guessed otherwise.
const ZONE_OFFSETS: [(&str, i64); 57] = [
    ("UTC", 0),
    ("GMT", 0),
    ("UT", 0),
    ("Z", 0),
    ("WET", 0),
    ("WEST", 60),
    ("BST", 60),
    ("CET", 60),
    ("MEZ", 60),
    ("WAT", 60),
    ("CEST", 120),
    ("MESZ", 120),
    ("EET", 120),
    ("CAT", 120),
    ("SAST", 120),
    ("EEST", 180),
    ("MSK", 180),
    ("TRT", 180),
    ("EAT", 180),
    ("SAMT", 240),
    ("PKT", 300),
    ("YEKT", 300),
    ("UZT", 300),
    ("NPT", 345),
    ("OMST", 360),
    ("ICT", 420),
    ("WIB", 420),
    ("KRAT", 420),
    ("HKT", 480),
    ("SGT", 480),
    ("AWST", 480),
    ("PHT", 480),
    ("WITA", 480),
    ("IRKT", 480),
    ("JST", 540),
    ("KST", 540),
    ("WIT", 540),
    ("ACST", 570),
    ("AEST", 600),
    ("VLAT", 600),
    ("ACDT", 630),
    ("AEDT", 660),
    ("NZST", 720),
    ("NZDT", 780),
    ("NDT", -150),
    ("BRT", -180),
    ("ART", -180),
    ("UYT", -180),
    ("EDT", -240),
    ("EST", -300),
    ("CDT", -300),
    ("MDT", -360),
    ("MST", -420),
    ("PDT", -420),
    ("PST", -480),
    ("AKDT", -480),
    ("HST", -600),
];

/// The latest hour of a broadcast day that guides write on the day before: `29` is 5 in the morning.
const HOUR_MAX: u32 = 29;
/// Seconds since 1970 that cannot be a date: 2001 to 2096.
const EPOCH: std::ops::Range<i64> = 1_000_000_000..4_000_000_000;

/// An instant of a guide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuideTime {
    pub(crate) at: UnixSeconds,
    /// The second instant of a local time that occurs twice, when clocks go back.
    pub(crate) later: Option<UnixSeconds>,
}

impl GuideTime {
    fn exact(at: i64) -> Self {
        Self {
            at: UnixSeconds(at),
            later: None,
        }
    }

    fn local(zone: Zone, local: NaiveDateTime) -> Self {
        let both = zone.from_local_datetime(&local);
        let later = both.latest().map(|at| UnixSeconds(at.timestamp()));
        let at = tv_day::instant(zone, local);
        Self {
            at,
            later: later.filter(|later| *later > at),
        }
    }
}

/// A time without a zone is local time in `default`.
pub fn parse(text: &str, default: Zone) -> Option<GuideTime> {
    if let Some(at) = epoch(text.trim()) {
        return Some(GuideTime::exact(at));
    }
    let (local, place) = split(text)?;
    if place.is_empty() {
        return Some(GuideTime::local(default, local));
    }
    let utc = local.and_utc().timestamp();
    if let Some(minutes) = offset(place) {
        return Some(GuideTime::exact(utc - minutes * 60));
    }
    // One that has several meanings is that of the source's zone, which has at most two of them.
    let time = GuideTime::local(default, local);
    let named = |at: &UnixSeconds| default.abbreviation(*at).eq_ignore_ascii_case(place);
    if let Some(at) = [Some(time.at), time.later]
        .into_iter()
        .flatten()
        .find(named)
    {
        return Some(GuideTime::exact(at.0));
    }
    let named: Zone = place.parse().ok()?;
    Some(GuideTime::local(named, local))
}

/// Ignores a zone or offset in the text.
pub fn parse_local(text: &str, zone: Zone) -> Option<GuideTime> {
    let (local, _) = split(text)?;
    Some(GuideTime::local(zone, local))
}

/// Unix time. Ten digits are also a date with an hour, but not one of our time.
fn epoch(text: &str) -> Option<i64> {
    if !matches!(text.len(), 10 | 13) || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let year = text.get(..4)?;
    let seconds = text.get(..10)?.parse().ok()?;
    (text.len() == 13 || !("1970".."2100").contains(&year))
        .then_some(seconds)
        .filter(|seconds| EPOCH.contains(seconds))
}

/// Missing seconds, minutes and hours are zero. A time without a day is invalid.
fn split(text: &str) -> Option<(NaiveDateTime, &str)> {
    let text = text.trim();
    let (stamp, place) = match text.as_bytes().get(4) {
        Some(b'-' | b'/' | b'.') => iso(text)?,
        _ => compact(text)?,
    };
    let part = |from: usize, to: usize| match stamp.get(from..to) {
        Some(part) => part.parse::<u32>().ok(),
        None => Some(0),
    };
    // Earlier years are typing errors, and negative instants are not needed.
    let year = i32::try_from(part(0, 4)?).ok().filter(|y| *y >= 1970)?;
    let date = NaiveDate::from_ymd_opt(year, part(4, 6)?, part(6, 8)?)?;
    let hour = part(8, 10)?;
    // 24:00 is the end of the day (ISO 8601), and broadcasters count on.
    let days = u64::from(hour / 24);
    let date = (hour <= HOUR_MAX).then(|| date.checked_add_days(Days::new(days)))??;
    // A leap second is the one before.
    let second = part(12, 14)?;
    let second = if second == 60 { 59 } else { second };
    let local = date.and_hms_opt(hour % 24, part(10, 12)?, second)?;
    Some((local, place.trim()))
}

/// The digits of `20260822162500`, also with the `T` of ISO 8601, and what follows.
fn compact(text: &str) -> Option<(String, &str)> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let count = digits(text);
    let (stamp, mut rest) = text.split_at_checked(count)?;
    let mut stamp = stamp.to_owned();
    if let Some(time) = rest.strip_prefix(['T', 't']).filter(|_| count == 8) {
        let (time, after) = time.split_at_checked(digits(time))?;
        stamp.push_str(time);
        rest = after;
    }
    matches!(stamp.len(), 8 | 10 | 12 | 14).then(|| (stamp, after_fraction(rest)))
}

/// The digits of `2026-08-22T16:25:00`, with a `T` or a space, and what follows.
fn iso(text: &str) -> Option<(String, &str)> {
    let (date, rest) = text.split_at_checked(10)?;
    let mut stamp = String::with_capacity(14);
    for (at, c) in date.char_indices() {
        match at {
            4 | 7 if ['-', '/', '.'].contains(&c) => {}
            _ if c.is_ascii_digit() => stamp.push(c),
            _ => return None,
        }
    }
    let Some(time) = rest.strip_prefix(['T', 't', ' ']) else {
        return Some((stamp, rest)).filter(|(stamp, _)| stamp.len() == 8);
    };
    let mut rest = time.trim_start();
    if !rest.starts_with(|c: char| c.is_ascii_digit()) {
        return Some((stamp, rest));
    }
    for unit in 0..3 {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        // Colons may be missing (`162500`), but not some of them.
        let number = rest
            .get(..digits)
            .filter(|_| digits == 2 || (unit == 0 && [4, 6].contains(&digits)))?;
        stamp.push_str(number);
        rest = rest.get(digits..)?;
        match rest.strip_prefix(':').filter(|_| digits == 2) {
            Some(after) => rest = after,
            None => break,
        }
    }
    Some((stamp, after_fraction(rest)))
}

/// Removes a fraction of a second, which no guide needs.
fn after_fraction(rest: &str) -> &str {
    let fraction = rest.strip_prefix(['.', ',']);
    fraction.map_or(rest, |fraction| {
        fraction.trim_start_matches(|c: char| c.is_ascii_digit())
    })
}

/// Minutes from UTC of `+0200`, `-02:30`, `+1:00`, `+02`, `GMT+1` or an abbreviation.
fn offset(text: &str) -> Option<i64> {
    // A second name of the same zone in brackets, such as `+0200 (CEST)`.
    let text = text.split(['(', '[']).next().unwrap_or_default().trim();
    let signed = ["UTC", "GMT", "utc", "gmt"].iter().find_map(|name| {
        let rest = text.strip_prefix(name)?.trim_start();
        rest.starts_with(['+', '-', '\u{2212}']).then_some(rest)
    });
    let text = signed.unwrap_or(text);
    let mut rest = text.chars();
    let sign = match rest.next()? {
        '+' => 1,
        '-' | '\u{2212}' => -1,
        _ => {
            let upper = text.to_ascii_uppercase();
            let known = ZONE_OFFSETS.iter().find(|(name, _)| *name == upper)?;
            return Some(known.1);
        }
    };
    let digits = rest.as_str().trim_start();
    let (hours, minutes) = match digits.split_once(':') {
        Some((hours, minutes)) if minutes.len() == 2 => (hours, minutes),
        Some(_) => return None,
        // `+1`, `+02`, `+100`, `+0200`.
        None if digits.len() <= 2 => (digits, "0"),
        None => digits.split_at_checked(digits.len() - 2)?,
    };
    let number = |text: &str| {
        let plain = matches!(text.len(), 1 | 2) && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<i64>().ok().filter(|_| plain)
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    // No zone is further from UTC.
    (hours <= 14 && minutes < 60).then_some(sign * (hours * 60 + minutes))
}

/// Moves a time of a guide; `None` beyond the calendar.
pub(crate) fn shifted(at: UnixSeconds, shift: i64) -> Option<UnixSeconds> {
    let time = chrono::DateTime::from_timestamp(at.0, 0)?;
    let moved = time.checked_add_signed(TimeDelta::try_seconds(shift)?)?;
    Some(UnixSeconds(moved.timestamp()))
}

/// A local time that occurs twice is repeated after this many seconds at most.
pub(crate) const REPEAT_MAX: i64 = 3 * HOUR;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, zone: Zone) -> Option<i64> {
        parse(text, zone).map(|time| time.at.0)
    }

    #[test]
    fn times_are_read_in_every_usual_form() {
        const AT: i64 = 1_787_415_900; // 2026-08-22 16:25:00 UTC
        for (text, at) in [
            ("20260822162500 +0000", AT),
            ("20260822182500 +0200", AT),
            ("20260822182500+02:00", AT),
            ("20260822182500 +02", AT),
            ("20260822115500 -0430", AT),
            ("20260822182500 CEST", AT),
            ("20260822162500 utc", AT),
            ("20260822162500Z", AT),
            ("20260822182500 Europe/Stockholm", AT),
            ("20260822182500 +2:00", AT),
            ("20260822182500 +200", AT),
            ("20260822182500 +2", AT),
            ("20260822182500 GMT+2", AT),
            ("20260822182500 UTC +02:00", AT),
            ("20260822182500.000 +0200", AT),
            ("20260822182500 +0200 (CEST)", AT),
            ("20260822102500 MDT", AT),
            ("2026-08-22T18:25:00+02:00", AT),
            ("2026-08-22T16:25:00.123Z", AT),
            ("2026-08-22T16:25Z", AT),
            ("2026-08-22 18:25", AT),
            ("2026-08-22 18:25:00 +0200", AT),
            ("2026-08-22T182500", AT),
            ("20260822T162500Z", AT),
            ("2026-08-22", AT - 25 * 60 - 18 * 3600),
            ("2026/08/22 18:25:00", AT),
            ("1787415900", AT),
            ("1787415900000", AT),
            ("20260822182500", AT),
            (" 202608221825 ", AT),
            ("2026082218", AT - 25 * 60),
            ("20260822", AT - 25 * 60 - 18 * 3600),
        ] {
            let read = self::at(text, Zone::stored("Europe/Stockholm"));
            assert_eq!(read, Some(at), "{text}");
        }
    }

    #[test]
    fn wrong_offsets_can_be_ignored() {
        let zone = Zone::stored("Europe/Stockholm");
        let local = parse("20260822182500 +0200", zone);
        for text in [
            "20260822182500 +0000",
            "20260822182500 IST",
            "20260822182500",
        ] {
            assert_eq!(parse_local(text, zone), local, "{text}");
        }
        assert_eq!(parse_local("soon", zone), None);
    }

    #[test]
    fn invalid_times_are_rejected() {
        for text in [
            "",
            "now",
            "2026",
            "202608",
            "2026082",
            "20260230",
            "20261301000000",
            "20260822300000",
            "2026-08-22T1",
            "2026-08-22T16:2",
            "2026-8-22",
            "20260822000000 GMT+",
            "20260822006000 +0000",
            "20260822000000 +1:0",
            "20260822000000 +",
            "20260822000000 +99",
            "20260822000000 +0260",
            "20260822000000 +02000",
            "20260822000000 IST",
            "20260822000000 Mars/Olympus",
            "19690822000000",
            "２0260822",
        ] {
            assert_eq!(at(text, Zone::utc()), None, "{text}");
        }
    }

    #[test]
    fn hours_after_midnight_may_be_counted_on() {
        let midnight = at("20260823000000", Zone::utc()).unwrap();
        for (text, hours) in [
            ("20260822240000", 0),
            ("20260822250000", 1),
            ("2026-08-22T29:00", 5),
        ] {
            assert_eq!(
                at(text, Zone::utc()),
                Some(midnight + hours * HOUR),
                "{text}"
            );
        }
    }

    #[test]
    fn an_abbreviation_with_several_meanings_is_that_of_the_zone() {
        for (text, zone, utc) in [
            (
                "20260822120000 IST",
                "Asia/Kolkata",
                Some("20260822063000 Z"),
            ),
            (
                "20260822120000 IST",
                "Europe/Dublin",
                Some("20260822110000 Z"),
            ),
            (
                "20260122120000 CST",
                "America/Chicago",
                Some("20260122180000 Z"),
            ),
            (
                "20260822120000 CST",
                "Asia/Shanghai",
                Some("20260822040000 Z"),
            ),
            ("20260822120000 CST", "Europe/Paris", None),
        ] {
            let expected = utc.map(|utc| at(utc, Zone::utc()).unwrap());
            assert_eq!(at(text, Zone::stored(zone)), expected, "{text} {zone}");
        }
    }

    #[test]
    fn a_local_time_that_occurs_twice_has_both_instants() {
        let zone = Zone::stored("Europe/Stockholm");
        let time = parse("20261025023000", zone).unwrap();
        assert_eq!(time.later, Some(time.at + HOUR));
        assert_eq!(parse("20261025023000 +0200", zone).unwrap().later, None);
        assert_eq!(parse("20261025033000", zone).unwrap().later, None);
    }

    #[test]
    fn a_shift_stays_in_the_calendar() {
        assert_eq!(shifted(UnixSeconds(5), -3_600), Some(UnixSeconds(-3_595)));
        assert_eq!(shifted(UnixSeconds(i64::MAX), 1), None);
        assert_eq!(shifted(UnixSeconds(0), i64::MAX), None);
    }
}
