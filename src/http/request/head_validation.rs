//! Stricter checks of the request head than hyper's parser: transfer codings other than chunked, a missing or
//! repeated Host, unescaped text in the query, sizes of head and target, and unknown methods.
//!
//! Paths are checked before routing, so that every route has exactly one spelling, and decoded once.

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};

use http::request::Parts;
use http::{HeaderValue, Method, Version};

use crate::errors::api_error::{ApiError, ErrorCode};
use crate::request::headers::{HeaderLines, RequestHeaders, SingleHeader};
use playgate_config::limits::TARGET_MAX;

pub(crate) fn is_known(method: &Method) -> bool {
    matches!(
        *method,
        Method::GET
            | Method::HEAD
            | Method::POST
            | Method::PUT
            | Method::DELETE
            | Method::OPTIONS
            | Method::PATCH
            | Method::TRACE
            | Method::QUERY
    )
}

/// Checks the head of a request.
///
/// # Errors
/// `INVALID_REQUEST`, `URI_TOO_LONG`, `EXPECTATION_FAILED`, `HEADERS_TOO_LARGE`, `METHOD_NOT_IMPLEMENTED`,
/// `TRANSFER_CODING_NOT_IMPLEMENTED`.
pub(crate) fn check_framing(parts: &Parts, heads: &RequestHeaders<'_>) -> Result<(), ApiError> {
    let target = parts
        .uri
        .path_and_query()
        .map_or(0, |target| target.as_str().len());
    if target > TARGET_MAX {
        return Err(ApiError::new(
            ErrorCode::UriTooLong,
            format!("the target has at most {TARGET_MAX} bytes"),
        ));
    }
    heads.check_size(parts.method.as_str().len() + target)?;
    check_transfer_coding(heads.transfer_encoding)?;
    check_host(parts, heads.host)?;
    // The parser lets raw UTF-8 pass; logs, proxies and signatures would disagree on its encoding.
    if !parts.uri.query().unwrap_or_default().is_ascii() {
        return Err(ApiError::malformed(
            "the query has a character that must be percent-encoded",
        ));
    }
    // RFC 9110, 9.1: a method that no resource knows is 501; 405 is for a known method that the path lacks.
    if !is_known(&parts.method) {
        return Err(ApiError::new(
            ErrorCode::MethodNotImplemented,
            "no route supports this method",
        ));
    }
    match heads.expect {
        SingleHeader::Absent => Ok(()),
        SingleHeader::One(value) if value.as_bytes().eq_ignore_ascii_case(b"100-continue") => {
            Ok(())
        }
        SingleHeader::One(_) | SingleHeader::Repeated => Err(ApiError::new(
            ErrorCode::ExpectationFailed,
            "the only supported Expect value is 100-continue",
        )),
    }
}

fn check_transfer_coding(lines: HeaderLines<'_>) -> Result<(), ApiError> {
    let mut chunked = 0;
    let mut others = false;
    for line in lines.values() {
        for coding in line.as_bytes().split(|b| *b == b',') {
            match coding.trim_ascii() {
                // RFC 9110, 5.6.1: empty list elements are ignored.
                b"" => {}
                coding if coding.eq_ignore_ascii_case(b"chunked") => chunked += 1,
                _ => others = true,
            }
        }
    }
    // hyper reads a repeated `chunked` as one, while a proxy could see chunks within chunks: request smuggling.
    if chunked > 1 {
        return Err(ApiError::malformed(
            "Transfer-Encoding has chunked more than once",
        ));
    }
    if others {
        return Err(ApiError::new(
            ErrorCode::CodingNotImplemented,
            "the only supported transfer coding is chunked",
        ));
    }
    Ok(())
}

fn check_host(parts: &Parts, host: SingleHeader<'_>) -> Result<(), ApiError> {
    let authority = match parts.version {
        // Only HTTP/2 has `:authority`. An absolute target in HTTP/1 is compared with the served hosts in
        // `check_answers_for`.
        Version::HTTP_2 => parts.uri.authority().map(|given| given.as_str().as_bytes()),
        _ => None,
    };
    let host = match (host, authority) {
        (SingleHeader::One(host), Some(authority))
            // RFC 9113, 8.3.1: a proxy could route by one, and the service answer for the other.
            if !names_same_host(host.as_bytes(), authority) =>
        {
            return Err(ApiError::malformed("Host differs from :authority"));
        }
        (SingleHeader::One(host), _) => host.as_bytes(),
        (SingleHeader::Absent, Some(authority)) => authority,
        // HTTP/1.0 has no `Host`. No browser sends it, so DNS rebinding is not possible with it.
        (SingleHeader::Absent, None) if parts.version < Version::HTTP_11 => return Ok(()),
        (SingleHeader::Absent, None) => return Err(ApiError::malformed("header Host is missing")),
        (SingleHeader::Repeated, _) => {
            return Err(ApiError::malformed("header Host is sent more than once"));
        }
    };
    match Host::parse(host) {
        Some(_) => Ok(()),
        None => Err(ApiError::malformed(
            "Host is not a name or an address with an optional port",
        )),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Host<'a> {
    Address,
    Name(&'a str),
}

impl<'a> Host<'a> {
    fn parse(text: &'a [u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        // RFC 3986, 3.2.2: brackets tell the colons of an IPv6 address from that of the port.
        if let Some(rest) = text.strip_prefix('[') {
            let (address, rest) = rest.split_once(']')?;
            address.parse::<Ipv6Addr>().ok()?;
            return (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port))
                .then_some(Self::Address);
        }
        let (name, port) = text.split_once(':').unwrap_or((text, ""));
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
        if name.is_empty() || !name.bytes().all(plain) || !is_port(port) {
            return None;
        }
        Some(match name.parse::<Ipv4Addr>() {
            Ok(_) => Self::Address,
            Err(_) => Self::Name(name),
        })
    }
}

fn names_same_host(host: &[u8], authority: &[u8]) -> bool {
    let [host, authority] = [host, authority].map(|given| {
        // HTTP/2 is served over TLS only, so the default port is 443.
        let without = [&b":443"[..], b":"].map(|port| given.strip_suffix(port));
        without.into_iter().flatten().next().unwrap_or(given)
    });
    host.eq_ignore_ascii_case(authority)
}

fn is_port(text: &str) -> bool {
    text.is_empty()
        || text.bytes().all(|b| b.is_ascii_digit())
            && text.len() <= 5
            && text.parse::<u16>().is_ok()
}

/// Checks that a request to the operations listener names a host that the listener serves: an IP address,
/// `localhost`, or a configured name. This prevents DNS rebinding: a page whose host name resolves to this
/// listener would otherwise have the same origin as the console.
///
/// # Errors
/// `MISDIRECTED_REQUEST`.
pub(crate) fn check_answers_for(
    parts: &Parts,
    heads: &RequestHeaders<'_>,
    hosts: &[String],
) -> Result<(), ApiError> {
    let authority = parts.uri.authority().map(|given| given.as_str().as_bytes());
    let host = heads.host.value().map(HeaderValue::as_bytes);
    // Both are checked: an absolute request line must not bypass the check of `Host`.
    for given in [authority, host].into_iter().flatten() {
        let ours = match Host::parse(given) {
            Some(Host::Address) => true,
            Some(Host::Name(name)) => {
                // `localhost.` is the same name, fully qualified.
                let name = name.strip_suffix('.').unwrap_or(name);
                let is = |known: &str| name.eq_ignore_ascii_case(known);
                is("localhost") || hosts.iter().any(|known| is(known))
            }
            None => false,
        };
        if !ours {
            return Err(ApiError::new(
                ErrorCode::MisdirectedRequest,
                "this listener does not answer for the host of the request: use its address, or add \
                 the name to `ops.hosts`",
            ));
        }
    }
    Ok(())
}

/// Rejects ambiguous paths: bytes other than visible ASCII, backslashes, empty and dot segments, and escapes
/// of separators or control characters.
///
/// # Errors
/// `INVALID_REQUEST` or `PATH_NOT_FOUND`.
pub fn check_path(path: &str) -> Result<(), ApiError> {
    let bytes = path.as_bytes();
    if bytes.first() != Some(&b'/') {
        return Err(ApiError::new(
            ErrorCode::PathNotFound,
            "a path begins with a slash; see /docs",
        ));
    }
    let mut suspicious = false;
    let mut before = 0;
    for byte in bytes {
        match *byte {
            0x21..=0x7e if *byte != b'\\' => {}
            _ => {
                return Err(ApiError::malformed(
                    "the path has a character that must be percent-encoded",
                ));
            }
        }
        // `/.` starts a dot segment or a hidden file and `%` an escape; both need a closer check.
        suspicious |= *byte == b'%' || before == b'/' && matches!(*byte, b'.' | b'/');
        before = *byte;
    }
    if suspicious {
        check_escapes(path)
    } else {
        Ok(())
    }
}

fn check_escapes(path: &str) -> Result<(), ApiError> {
    for segment in path.split('/').skip(1) {
        let decoded = percent_decode(segment.as_bytes())
            .ok_or_else(|| ApiError::malformed("the path has a broken percent escape"))?;
        if decoded
            .iter()
            // Some proxies decode these before routing: the two would then see different paths.
            .any(|b| matches!(*b, b'/' | b'\\' | 0..=0x1f | 0x7f))
        {
            return Err(ApiError::malformed(
                "the path has an escaped slash or control character",
            ));
        }
        // A trailing slash makes the last segment empty, which is left to the router.
        if decoded.is_empty() && path.contains("//") {
            return Err(ApiError::new(
                ErrorCode::PathNotFound,
                "the path has an empty segment",
            ));
        }
        // Escaped dots count: `%2e%2e` is `..` to a proxy that normalizes paths.
        if *decoded == *b"." || *decoded == *b".." {
            return Err(ApiError::malformed("the path has a dot segment"));
        }
        if std::str::from_utf8(&decoded).is_err() {
            return Err(ApiError::malformed("the path is not valid UTF-8"));
        }
    }
    Ok(())
}

/// Decodes percent-encoding once. Returns `None` for a broken escape.
pub(crate) fn percent_decode(bytes: &[u8]) -> Option<Cow<'_, [u8]>> {
    if !bytes.contains(&b'%') {
        return Some(Cow::Borrowed(bytes));
    }
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut rest = bytes.iter();
    while let Some(byte) = rest.next() {
        if *byte == b'%' {
            let high = hex(*rest.next()?)?;
            let low = hex(*rest.next()?)?;
            decoded.push(high << 4 | low);
        } else {
            decoded.push(*byte);
        }
    }
    Some(Cow::Owned(decoded))
}

const fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

pub(crate) fn decode(text: &str) -> Option<Cow<'_, str>> {
    match percent_decode(text.as_bytes())? {
        Cow::Borrowed(_) => Some(Cow::Borrowed(text)),
        Cow::Owned(bytes) => String::from_utf8(bytes).ok().map(Cow::Owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_and_addresses_with_ports() {
        for (text, host) in [
            ("tv.example", Host::Name("tv.example")),
            ("my_host:8080", Host::Name("my_host")),
            ("a:", Host::Name("a")),
            ("a.example.:65535", Host::Name("a.example.")),
            ("127.0.0.1", Host::Address),
            ("127.0.0.1:9080", Host::Address),
            ("[::1]", Host::Address),
            ("[2001:db8::1]:80", Host::Address),
        ] {
            assert_eq!(Host::parse(text.as_bytes()), Some(host), "{text}");
        }
        for bad in [
            "",
            ":",
            ":80",
            "[::1",
            "::1",
            "[]",
            "[::1]x",
            "[::1]:x",
            "[::1]:99999",
            "[127.0.0.1]",
            "[::1%25lo]",
            "a:b:c",
            "x:99999",
            "x:65536",
            "x:000080",
            "x:-1",
            "x:+1",
            "a b",
            "a/b",
            "a@b",
            "a,b",
            "a%41",
            "\u{e4}",
            "http://a",
        ] {
            assert_eq!(Host::parse(bad.as_bytes()), None, "{bad}");
        }
    }
}
