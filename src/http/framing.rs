//! What hyper's parser lets through and we do not: codings other than chunked, a missing or doubled
//! Host, fragments, raw text in the query, heads and targets of any size, methods of any name.

use http::request::Parts;
use http::{Method, Version};

use super::error::{ApiError, ErrorCode};
use super::headers::{Heads, Slot};
use crate::config::limits::TARGET_MAX;

/// Checks a request's head.
///
/// # Errors
/// 400, 414, 417, 431, 501.
pub(super) fn check_framing(
    parts: &Parts,
    heads: &Heads<'_>,
    fragment: bool,
) -> Result<(), ApiError> {
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
    match heads.transfer_encoding {
        Slot::Absent => {}
        Slot::One(coding)
            if coding
                .as_bytes()
                .trim_ascii()
                .eq_ignore_ascii_case(b"chunked") => {}
        Slot::One(_) | Slot::Repeated => {
            return Err(ApiError::new(
                ErrorCode::CodingNotImplemented,
                "the only transfer coding is chunked",
            ));
        }
    }
    check_host(parts, heads.host)?;
    if fragment {
        return Err(ApiError::malformed("the target has a fragment"));
    }
    if !parts.uri.query().unwrap_or_default().is_ascii() {
        return Err(ApiError::malformed(
            "the query has a character that must be percent-encoded",
        ));
    }
    if !matches!(
        parts.method,
        Method::GET
            | Method::HEAD
            | Method::POST
            | Method::PUT
            | Method::DELETE
            | Method::OPTIONS
            | Method::PATCH
            | Method::TRACE
            | Method::QUERY
    ) {
        return Err(ApiError::new(
            ErrorCode::MethodNotImplemented,
            "no path has this method",
        ));
    }
    match heads.expect {
        Slot::Absent => Ok(()),
        Slot::One(value) if value.as_bytes().eq_ignore_ascii_case(b"100-continue") => Ok(()),
        Slot::One(_) | Slot::Repeated => Err(ApiError::new(
            ErrorCode::ExpectationFailed,
            "the only expectation is 100-continue",
        )),
    }
}

/// Checks whom the request is for. Where HTTP/2 says it twice it has to say the same.
fn check_host(parts: &Parts, host: Slot<'_>) -> Result<(), ApiError> {
    let authority = match parts.version {
        Version::HTTP_2 => parts.uri.authority().map(|given| given.as_str().as_bytes()),
        _ => None,
    };
    let host = match (host, authority) {
        (Slot::One(host), Some(authority)) if host.as_bytes() != authority => {
            return Err(ApiError::malformed("Host differs from :authority"));
        }
        (Slot::One(host), _) => host.as_bytes(),
        (Slot::Absent, Some(authority)) => authority,
        (Slot::Absent, None) if parts.version < Version::HTTP_11 => return Ok(()),
        (Slot::Absent, None) => return Err(ApiError::malformed("Host is missing")),
        (Slot::Repeated, _) => return Err(ApiError::malformed("Host is sent more than once")),
    };
    if is_host(host) {
        Ok(())
    } else {
        Err(ApiError::malformed("Host is not valid"))
    }
}

/// A name or address with an optional port.
fn is_host(host: &[u8]) -> bool {
    !host.is_empty()
        && host
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"-._:[]%~".contains(b))
}
