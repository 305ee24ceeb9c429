//! Content codings and entity tags.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderValue;

use super::headers::Heads;
use super::quality::quality;

/// Packs fast rather than small.
pub(super) fn pack(bytes: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 2), Compression::fast());
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok().map(Bytes::from)
}

/// Whether an `Accept-Encoding` takes gzip.
pub(super) fn accepts_gzip(accept: &str) -> bool {
    let mut any = false;
    for range in accept.split(',') {
        let mut parts = range.split(';');
        let coding = parts.next().unwrap_or_default().trim();
        let refused = quality(parts) == 0;
        if coding.eq_ignore_ascii_case("gzip") {
            return !refused;
        }
        any |= coding == "*" && !refused;
    }
    any
}

/// A strong tag; it differs by content coding.
pub(super) fn tag(number: u64, packed: bool) -> HeaderValue {
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

/// Whether `If-None-Match` names the tag.
pub(super) fn is_known(heads: &Heads<'_>, tag: &HeaderValue) -> bool {
    let (Some(known), Ok(tag)) = (heads.if_none_match.ascii(), tag.to_str()) else {
        return false;
    };
    known.trim() == "*"
        || known
            .split(',')
            .any(|one| one.trim().trim_start_matches("W/") == tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_encoding_is_read_with_weights() {
        for yes in [
            "gzip",
            "GZIP",
            "br, gzip",
            "*",
            "gzip;q=0.1",
            "*;q=0.5, gzip;q=1.0",
        ] {
            assert!(accepts_gzip(yes), "{yes}");
        }
        for no in [
            "",
            "br",
            "gzip;q=0",
            "gzip; q=0.000",
            "*, gzip;q=0",
            "identity",
            "*;q=0",
        ] {
            assert!(!accepts_gzip(no), "{no}");
        }
    }
}
