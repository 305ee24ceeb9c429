//! Parses XMLTV times: `20260822162500 +0200`, of which parts and the zone may be missing.

use chrono::{NaiveDate, NaiveDateTime};
use chrono_tz::Tz;

use crate::domain::schedule::tv_day;
use crate::types::UnixSeconds;

/// Abbreviations of time zones with their offsets in minutes. Ambiguous ones (IST, CST, …) are rejected
/// rather than guessed.
const ZONE_OFFSETS: [(&str, i64); 28] = [
    ("UTC", 0),
    ("GMT", 0),
    ("UT", 0),
    ("Z", 0),
    ("WET", 0),
    ("WEST", 60),
    ("BST", 60),
    ("CET", 60),
    ("MEZ", 60),
    ("CEST", 120),
    ("MESZ", 120),
    ("EET", 120),
    ("EEST", 180),
    ("MSK", 180),
    ("SAST", 120),
    ("HKT", 480),
    ("SGT", 480),
    ("AWST", 480),
    ("JST", 540),
    ("KST", 540),
    ("AEST", 600),
    ("AEDT", 660),
    ("NZST", 720),
    ("NZDT", 780),
    ("EDT", -240),
    ("EST", -300),
    ("PDT", -420),
    ("PST", -480),
];

/// A time without a zone is local time in `default`.
#[must_use]
pub(crate) fn parse(text: &str, default: Tz) -> Option<UnixSeconds> {
    let (local, place) = split(text)?;
    if place.is_empty() {
        return Some(tv_day::instant(default, local));
    }
    if let Some(minutes) = offset(place) {
        return Some(UnixSeconds(local.and_utc().timestamp() - minutes * 60));
    }
    let named: Tz = place.parse().ok()?;
    Some(tv_day::instant(named, local))
}

/// Ignores a zone or offset in the text.
#[must_use]
pub(crate) fn parse_local(text: &str, zone: Tz) -> Option<UnixSeconds> {
    let (local, _) = split(text)?;
    Some(tv_day::instant(zone, local))
}

/// Missing seconds, minutes and hours are zero. A time without a day is invalid.
fn split(text: &str) -> Option<(NaiveDateTime, &str)> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if !matches!(digits, 8 | 10 | 12 | 14) {
        return None;
    }
    let (stamp, place) = text.split_at(digits);
    let part = |from: usize, to: usize| match stamp.get(from..to) {
        Some(part) => part.parse::<u32>().ok(),
        None => Some(0),
    };
    // Earlier years are typing errors, and negative instants are not needed.
    let year = i32::try_from(part(0, 4)?).ok().filter(|y| *y >= 1970)?;
    let local = NaiveDate::from_ymd_opt(year, part(4, 6)?, part(6, 8)?)?.and_hms_opt(
        part(8, 10)?,
        part(10, 12)?,
        part(12, 14)?,
    )?;
    Some((local, place.trim()))
}

/// Minutes from UTC of `+0200`, `-02:30`, `+02` or an abbreviation.
fn offset(text: &str) -> Option<i64> {
    let (sign, digits) = match text.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => {
            let upper = text.to_ascii_uppercase();
            let known = ZONE_OFFSETS.iter().find(|(name, _)| *name == upper)?;
            return Some(known.1);
        }
    };
    let digits = digits.replacen(':', "", 1);
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) || !matches!(digits.len(), 2 | 4) {
        return None;
    }
    let hours: i64 = digits.get(..2)?.parse().ok()?;
    let minutes: i64 = digits
        .get(2..)
        .filter(|m| !m.is_empty())
        .map_or(Some(0), |m| m.parse().ok())?;
    // No zone is further from UTC.
    (hours <= 14 && minutes < 60).then_some(sign * (hours * 60 + minutes))
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ("20260822182500", AT),
            (" 202608221825 ", AT),
            ("2026082218", AT - 25 * 60),
            ("20260822", AT - 25 * 60 - 18 * 3600),
        ] {
            let read = parse(text, Tz::Europe__Stockholm);
            assert_eq!(read, Some(UnixSeconds(at)), "{text}");
        }
    }

    #[test]
    fn wrong_offsets_can_be_ignored() {
        let zone = Tz::Europe__Stockholm;
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
            "20260822250000",
            "20260822006000 +0000",
            "20260822000000 +1",
            "20260822000000 +99",
            "20260822000000 +0260",
            "20260822000000 +02000",
            "20260822000000 IST",
            "20260822000000 Mars/Olympus",
            "2026-08-22 16:25",
            "19690822000000",
            "２0260822",
        ] {
            assert_eq!(parse(text, Tz::UTC), None, "{text}");
        }
    }
}
