//! CORS: scripts of allowed origins may send our headers and read our responses, without cookies.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ALLOW, VARY,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::request::headers::RequestHeaders;
use crate::response::reply::Reply;
use crate::state::HttpState;

/// Response headers that scripts may read in addition to the safelisted ones.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "X-Request-Id, Retry-After, RateLimit, RateLimit-Policy, ETag, WWW-Authenticate, Deprecation, Sunset, Link, \
     Content-Range, Accept-Ranges, Content-Length, Date, X-Playgate-Fault",
);

/// Lets scripts read when the bytes of a response arrived: players measure throughput by it (Resource Timing, 4.5.1).
const TIMING_ALLOW_ORIGIN: HeaderName = HeaderName::from_static("timing-allow-origin");

/// Two hours. Chromium caches a preflight no longer than that.
const MAX_AGE: HeaderValue = HeaderValue::from_static("7200");

/// Longest `Access-Control-Request-Headers` that is echoed, in bytes.
const REQUESTED_MAX: usize = 1_024;

fn requested(headers: &HeaderMap) -> Option<&HeaderValue> {
    let value = headers.get(ACCESS_CONTROL_REQUEST_HEADERS)?;
    // Echoed into a response header: only characters of header names pass, up to a limit.
    let plain = value.len() <= REQUESTED_MAX
        && value
            .as_bytes()
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"-_, ".contains(b));
    plain.then_some(value)
}

/// Whether an `OPTIONS` request is a CORS preflight.
fn is_preflight(headers: &HeaderMap) -> bool {
    headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

pub(crate) fn options(allow: &HeaderValue, headers: &HeaderMap) -> Reply {
    let mut reply = Reply::no_content().with_header(ALLOW, allow.clone());
    // RFC 9110, 9.3.7: a plain OPTIONS asks for `Allow`. Only a preflight gets the CORS headers.
    if is_preflight(headers) {
        reply = reply
            .with_header(ACCESS_CONTROL_ALLOW_METHODS, allow.clone())
            .with_header(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
        if let Some(names) = requested(headers) {
            reply = reply.with_header(ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
        }
    }
    reply
}

/// Lets scripts of any origin read a refusal that is the same for all routes. Returns whether the request is a preflight,
/// which has to succeed before a player can read it.
pub(crate) fn allow_refusal(request: &Parts, answer: &mut HeaderMap) -> bool {
    answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    answer.insert(TIMING_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    answer.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    let preflight = request.method == Method::OPTIONS && is_preflight(&request.headers);
    if preflight {
        let methods = HeaderValue::from_static("GET, POST, PUT, DELETE");
        answer.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
        if let Some(names) = requested(&request.headers) {
            answer.insert(ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
        }
    }
    preflight
}

pub(crate) fn allow(http: &HttpState, heads: &RequestHeaders<'_>, answer: &mut HeaderMap) {
    let Some(origin) = heads.origin.value() else {
        return;
    };
    match &http.origins {
        // Access is granted by tokens in headers and never by cookies, so a page of any origin gains nothing.
        None => {
            answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
            answer.insert(TIMING_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        }
        Some(listed) => {
            // A shared cache must not give the response for one origin to another.
            if !answer.contains_key(VARY) {
                answer.insert(VARY, HeaderValue::from_static("Origin"));
            }
            if !listed.contains(origin) {
                return;
            }
            answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            answer.insert(TIMING_ALLOW_ORIGIN, origin.clone());
        }
    }
    answer.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
}
