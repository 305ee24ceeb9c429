//! Content codings and entity tags.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderValue;

use crate::http::request::accept::quality;
use crate::http::request::headers::{HeaderLines, RequestHeaders};

pub(crate) fn pack(bytes: &[u8]) -> Option<Bytes> {
    // The fastest level: a response is compressed once for each change of the schedule, while viewers wait.
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 2), Compression::fast());
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok().map(Bytes::from)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Preference {
    Identity,
    /// gzip, if it makes the body smaller.
    Gzip,
    /// gzip at any size: the client refuses an uncompressed body.
    OnlyGzip,
}

/// Parses `Accept-Encoding` (RFC 9110, section 12.5.3).
pub(crate) fn preference(accept: HeaderLines<'_>) -> Preference {
    if accept.is_absent() {
        return Preference::Identity;
    }
    let (mut gzip, mut identity, mut other) = (None, None, None);
    for element in accept.elements() {
        let mut parts = element.split(';');
        let coding = parts.next().unwrap_or_default().trim();
        let weight = match coding {
            // RFC 9110, 12.5.3: `*` stands for every coding that the list does not name.
            "*" => &mut other,
            _ if coding.eq_ignore_ascii_case("gzip") => &mut gzip,
            _ if coding.eq_ignore_ascii_case("x-gzip") => &mut gzip,
            _ if coding.eq_ignore_ascii_case("identity") => &mut identity,
            _ => continue,
        };
        // The first weight of a repeated coding counts.
        weight.get_or_insert(quality(parts));
    }
    // `identity` has the lowest weight if the list does not name it, and on equal weights gzip wins. A client that
    // refuses both gets the body uncompressed, which is more useful than a 406.
    let gzip = gzip.or(other).unwrap_or(0);
    match identity.or(other) {
        _ if gzip == 0 => Preference::Identity,
        Some(0) => Preference::OnlyGzip,
        Some(identity) if identity > gzip => Preference::Identity,
        Some(_) | None => Preference::Gzip,
    }
}

/// Builds a strong entity tag, which differs by content coding.
pub(crate) fn tag(number: u64, packed: bool) -> HeaderValue {
    // Without the formatting machinery: every cacheable response has a tag.
    let mut text = *b"\"0000000000000000-gz\"";
    for (digit, at) in text.iter_mut().skip(1).take(16).zip((0..16).rev()) {
        let nibble = u32::try_from((number >> (4 * at)) & 0xf).unwrap_or(0);
        *digit = char::from_digit(nibble, 16).map_or(b'0', |c| u8::try_from(c).unwrap_or(b'0'));
    }
    let value = if packed {
        HeaderValue::from_bytes(&text)
    } else {
        let mut plain = [b'"'; 18];
        for (to, from) in plain.iter_mut().zip(text).take(17) {
            *to = from;
        }
        HeaderValue::from_bytes(&plain)
    };
    value.unwrap_or_else(|_| HeaderValue::from_static("\"0\""))
}

pub(crate) fn is_known(heads: &RequestHeaders<'_>, tag: &HeaderValue) -> bool {
    heads.if_none_match.values().any(|line| {
        let line = line.as_bytes().trim_ascii();
        // RFC 9110, 13.1.2: `*` matches any current representation.
        line == b"*" || names_tag(line, tag.as_bytes())
    })
}

fn names_tag(mut list: &[u8], tag: &[u8]) -> bool {
    loop {
        list = list.trim_ascii_start();
        // A weak comparison: a proxy that compresses weakens the tag of the client.
        list = list.strip_prefix(b"W/").unwrap_or(list);
        let Some(inner) = list.strip_prefix(b"\"") else {
            // Not a tag: continue after the next comma.
            match list.iter().position(|b| *b == b',') {
                Some(at) => list = list.get(at + 1..).unwrap_or_default(),
                None => return false,
            }
            continue;
        };
        let Some(end) = inner.iter().position(|b| *b == b'"') else {
            return false;
        };
        // Including both quotes.
        if list.get(..end + 2) == Some(tag) {
            return true;
        }
        list = inner.get(end + 1..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::http::request::headers::HeaderNames;

    fn lines(name: &'static str, values: &[&str]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for value in values {
            map.append(name, HeaderValue::from_str(value).unwrap());
        }
        map
    }

    #[test]
    fn accept_encoding_is_read_with_weights() {
        use Preference::{Gzip, Identity, OnlyGzip};
        let names = HeaderNames::new("Service-").unwrap();
        let cases: [(&[&str], Preference); 27] = [
            (&[], Identity),
            (&[""], Identity),
            (&["gzip"], Gzip),
            (&["GZIP"], Gzip),
            (&["x-gzip"], Gzip),
            (&["br, gzip"], Gzip),
            (&["br", "gzip"], Gzip),
            (&["*"], Gzip),
            (&["gzip;q=0.1"], Gzip),
            (&["*;q=0.5, gzip;q=1.0"], Gzip),
            (&["gzip;q=0.5, identity;q=0.5"], Gzip),
            (&["identity;q=0.4", "gzip;q=0.5"], Gzip),
            (&["identity;q=1, gzip;q=0.5"], Identity),
            (&["identity", "gzip;q=0.5"], Identity),
            (&["*, gzip;q=0.5"], Identity),
            (&["br"], Identity),
            (&["gzip;q=0"], Identity),
            (&["gzip; q=0.000"], Identity),
            (&["*, gzip;q=0"], Identity),
            (&["identity"], Identity),
            (&["*;q=0"], Identity),
            (&["identity;q=0"], Identity),
            (&["identity;q=0, gzip;q=0"], Identity),
            (&["gzip;q=2"], Identity),
            (&["identity;q=0, gzip"], OnlyGzip),
            (&["gzip", "identity;q=0"], OnlyGzip),
            (&["*;q=0, gzip;q=0.1"], OnlyGzip),
        ];
        for (values, expected) in cases {
            let map = lines("accept-encoding", values);
            let heads = RequestHeaders::read(&map, &names);
            assert_eq!(preference(heads.accept_encoding), expected, "{values:?}");
        }
    }

    #[test]
    fn if_none_match_is_a_list_that_is_compared_weakly() {
        let names = HeaderNames::new("Service-").unwrap();
        let known = |values: &[&str]| {
            let map = lines("if-none-match", values);
            is_known(
                &RequestHeaders::read(&map, &names),
                &HeaderValue::from_static("\"a\""),
            )
        };
        for yes in [
            &["\"a\""][..],
            &["W/\"a\""],
            &["*"],
            &[" * "],
            &["\"b\",\"a\""],
            &["\"b\"", "\"a\""],
            &["\"x,y\" , W/\"a\""],
            &["junk, \"a\""],
            &["\u{e4}, \"a\""],
        ] {
            assert!(known(yes), "{yes:?}");
        }
        for no in [
            &[][..],
            &[""],
            &["a"],
            &["\"b\""],
            &["\"a"],
            &["W/W/\"a\""],
            &["\"b,\"a\",c\""],
            &["\"A\""],
            &["**"],
        ] {
            assert!(!known(no), "{no:?}");
        }
    }
}
