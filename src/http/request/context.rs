//! The request context of a handler: what it receives in addition to its parameters.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderValue;

use crate::config::limits::REQUEST_ID_MAX;
use crate::domain::audit::AuditedChange;
use crate::domain::decision::DecisionTrace;
use crate::http::request::headers::RequestHeaders;
use crate::ports::geoip::GeoIp;
use crate::types::{Country, UnixSeconds};

/// Appears in every log line of a request and in `X-Request-Id` of its response.
#[derive(Clone, Debug)]
pub enum RequestId {
    /// Generated: a number drawn at process start, and a counter.
    Made(u64, u64),
    Echoed(HeaderValue),
}

impl RequestId {
    #[must_use]
    pub fn header(&self) -> HeaderValue {
        match self {
            Self::Made(start, count) => {
                // Without the formatting machinery: every response has an id.
                let mut text = [0; 32];
                let bits = u128::from(*start) << 64 | u128::from(*count);
                for (digit, at) in text.iter_mut().zip((0..32).rev()) {
                    let nibble = (bits >> (4 * at)) & 0xf;
                    *digit = b"0123456789abcdef"
                        .get(usize::try_from(nibble).unwrap_or(0))
                        .copied()
                        .unwrap_or(b'0');
                }
                HeaderValue::from_bytes(&text).unwrap_or_else(|_| HeaderValue::from_static("0"))
            }
            Self::Echoed(value) => value.clone(),
        }
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Made(start, count) => write!(f, "{start:016x}{count:016x}"),
            Self::Echoed(value) => f.write_str(value.to_str().unwrap_or_default()),
        }
    }
}

pub struct RequestIds {
    start: u64,
    count: AtomicU64,
}

impl RequestIds {
    /// `start` must be random, so that ids do not repeat after a restart.
    #[must_use]
    pub const fn new(start: u64) -> Self {
        Self {
            start,
            count: AtomicU64::new(0),
        }
    }

    /// Returns the id that the client sent if it is valid, else a new one.
    #[must_use]
    pub fn for_request(&self, heads: &RequestHeaders<'_>) -> RequestId {
        match heads.request_id.value() {
            // Ids go into logs and tickets, so only harmless characters are echoed.
            Some(value) if sane(value.as_bytes()) => RequestId::Echoed(value.clone()),
            _ => RequestId::Made(self.start, self.count.fetch_add(1, Ordering::Relaxed)),
        }
    }
}

fn sane(id: &[u8]) -> bool {
    (1..=REQUEST_ID_MAX).contains(&id.len())
        && id
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"-._~:".contains(b))
}

#[derive(Clone, Debug)]
pub(crate) struct Context {
    /// The instant of the request, read only once so that all decisions agree.
    pub now: UnixSeconds,
    pub request_id: RequestId,
    pub peer: IpAddr,
    /// The viewer's country as reported by a trusted proxy.
    pub reported_country: Option<Country>,
    pub accept_language: Option<HeaderValue>,
    pub change: Option<Box<AuditedChange>>,
    /// Collects the decision for the request journal.
    pub trace: DecisionTrace,
}

impl Context {
    /// Returns the viewer's country: from a trusted proxy, else from the GeoIP database. The look-up happens
    /// on demand, because most requests do not need it.
    #[must_use]
    pub(crate) fn country(&self, places: Option<&GeoIp>) -> Option<Country> {
        // Looked up on demand: most requests do not need it.
        self.reported_country.or_else(|| places?.country(self.peer))
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::http::request::headers::HeaderNames;

    #[test]
    fn sane_ids_are_echoed_and_others_replaced() {
        let names = HeaderNames::new("Service-").unwrap();
        let ids = RequestIds::new(0xabc);
        let of = |value: &str| {
            let mut map = HeaderMap::new();
            map.insert("x-request-id", HeaderValue::from_str(value).unwrap());
            ids.for_request(&RequestHeaders::read(&map, &names))
                .to_string()
        };
        assert_eq!(of("abc-1.2:3"), "abc-1.2:3");
        for bad in ["", "a b", "a\"b", &"x".repeat(65), "<script>"] {
            assert!(of(bad).starts_with("0000000000000abc"), "{bad}");
        }
    }

    #[test]
    fn a_made_id_reads_the_same_in_log_and_header() {
        let id = RequestId::Made(0x0123_4567_89ab_cdef, 255);
        assert_eq!(id.header().to_str().unwrap(), id.to_string());
        assert_eq!(id.to_string(), "0123456789abcdef00000000000000ff");
    }
}
