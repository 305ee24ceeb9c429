//! Validates request paths before routing, so that every route has exactly one spelling. Also decodes
//! percent-encoding, once.

use std::borrow::Cow;

use crate::http::errors::api_error::{ApiError, ErrorCode};

/// Rejects ambiguous paths: bytes other than visible ASCII, backslashes, empty and dot segments, and escapes
/// of separators or control characters.
///
/// # Errors
/// `INVALID_REQUEST` or `PATH_NOT_FOUND`.
pub(crate) fn check_path(path: &str) -> Result<(), ApiError> {
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
