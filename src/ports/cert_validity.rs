//! Parses the validity period of an X.509 certificate, which rustls does not expose for the server's own
//! certificate.

use std::fmt;

use chrono::{DateTime, NaiveDateTime};

use playgate_types::UnixSeconds;

// DER tags.
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Validity period of a certificate, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    from: UnixSeconds,
    to: UnixSeconds,
}

impl Validity {
    pub fn parse(certificate: &[u8]) -> Option<Self> {
        // The order of the fields is that of RFC 5280, 4.1.
        let (whole, _) = expect(certificate, SEQUENCE)?;
        let (mut rest, _) = expect(whole, SEQUENCE)?;
        // The version is omitted for v1.
        if let Some((_, after)) = expect(rest, VERSION) {
            rest = after;
        }
        // Skips serial number, signature algorithm and issuer.
        for _ in 0..3 {
            (_, _, rest) = element(rest)?;
        }
        let (times, _) = expect(rest, SEQUENCE)?;
        let (from, times) = time(times)?;
        let (to, _) = time(times)?;
        Some(Self { from, to })
    }

    pub(super) fn covers(self, now: UnixSeconds) -> bool {
        (self.from..=self.to).contains(&now)
    }

    pub const fn until(self) -> UnixSeconds {
        self.to
    }

    pub(super) const fn left(self, now: UnixSeconds) -> i64 {
        self.to.since(now)
    }
}

impl fmt::Display for Validity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |at: UnixSeconds| {
            DateTime::from_timestamp(at.0, 0)
                .map_or_else(|| at.to_string(), |at| at.format("%F %T UTC").to_string())
        };
        write!(f, "valid from {} to {}", shown(self.from), shown(self.to))
    }
}

fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = if *first < 0x80 {
        (usize::from(*first), rest)
    } else {
        let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
        // Four length bytes express 4 GiB, far beyond the file's limit; more would overflow the sum.
        if digits.is_empty() || digits.len() > 4 {
            return None;
        }
        let length = digits
            .iter()
            .fold(0, |sum: usize, digit| (sum << 8) | usize::from(*digit));
        (length, rest)
    };
    let (content, after) = rest.split_at_checked(length)?;
    Some((*tag, content, after))
}

fn expect(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, after) = element(bytes)?;
    (found == tag).then_some((content, after))
}

fn time(bytes: &[u8]) -> Option<(UnixSeconds, &[u8])> {
    let (tag, content, after) = element(bytes)?;
    let text = std::str::from_utf8(content).ok()?;
    let text = match tag {
        GENERALIZED_TIME => text.to_owned(),
        // Two-digit years are 1950 to 2049.
        UTC_TIME if text >= "50" => format!("19{text}"),
        UTC_TIME => format!("20{text}"),
        _ => return None,
    };
    // RFC 5280, 4.1.2.5: seconds are mandatory, and the zone is always `Z`.
    let at = NaiveDateTime::parse_from_str(&text, "%Y%m%d%H%M%SZ").ok()?;
    Some((UnixSeconds(at.and_utc().timestamp()), after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn der(tag: u8, content: &[u8]) -> Vec<u8> {
        let mut bytes = vec![tag];
        match u8::try_from(content.len()) {
            Ok(short) if short < 0x80 => bytes.push(short),
            _ => {
                bytes.push(0x82);
                let length = u16::try_from(content.len()).unwrap();
                bytes.extend_from_slice(&length.to_be_bytes());
            }
        }
        bytes.extend_from_slice(content);
        bytes
    }

    fn certificate(version: bool, from: (u8, &str), to: (u8, &str)) -> Vec<u8> {
        let mut body = Vec::new();
        if version {
            body.extend(der(VERSION, &der(2, &[2])));
        }
        body.extend(der(2, &[7; 20]));
        body.extend(der(SEQUENCE, &[]));
        body.extend(der(SEQUENCE, &[0; 300]));
        let times = [from, to].map(|(tag, text)| der(tag, text.as_bytes()));
        body.extend(der(SEQUENCE, &times.concat()));
        der(SEQUENCE, &der(SEQUENCE, &body))
    }

    #[test]
    fn both_time_formats_are_parsed() {
        let old = (UTC_TIME, "700101000000Z");
        let new = (GENERALIZED_TIME, "20500101000001Z");
        for version in [true, false] {
            let validity = Validity::parse(&certificate(version, old, new)).unwrap();
            let end = UnixSeconds(2_524_608_001);
            assert_eq!((validity.from, validity.to), (UnixSeconds(0), end));
            assert!(validity.covers(end) && !validity.covers(end + 1));
            assert!(!validity.covers(UnixSeconds(-1)));
            assert_eq!(validity.left(end - 5), 5);
            let said = "valid from 1970-01-01 00:00:00 UTC to 2050-01-01 00:00:01 UTC";
            assert_eq!(validity.to_string(), said);
        }
        let century = (UTC_TIME, "490101000000Z");
        let validity = Validity::parse(&certificate(true, old, century)).unwrap();
        assert_eq!(validity.to, UnixSeconds(2_493_072_000));
    }

    #[test]
    fn other_data_has_no_validity() {
        let good = certificate(true, (UTC_TIME, "700101000000Z"), (UTC_TIME, "x"));
        assert_eq!(Validity::parse(&good), None);
        let good = certificate(
            true,
            (UTC_TIME, "700101000000Z"),
            (UTC_TIME, "800101000000Z"),
        );
        for cut in 0..good.len() {
            assert_eq!(Validity::parse(&good[..cut]), None, "{cut}");
        }
        assert!(Validity::parse(&good).is_some());
    }
}
