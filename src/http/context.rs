//! What a handler is told about the request beside its parameters.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderValue;

use super::headers::RequestHeaders;
use crate::config::limits::REQUEST_ID_MAX;
use crate::domain::audit::Change;
use crate::ports::geoip::GeoIp;
use crate::types::{Country, UnixSeconds};

/// What stands in every log line of a request and in `X-Request-Id` of its answer.
#[derive(Clone, Debug)]
pub enum RequestId {
    /// Ours: a number drawn when the process started, and a count.
    Made(u64, u64),
    /// The client's.
    Echoed(HeaderValue),
}

impl RequestId {
    /// The header of the answer.
    #[must_use]
    pub fn header(&self) -> HeaderValue {
        match self {
            Self::Made(start, count) => {
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

/// Gives out request ids.
pub struct RequestIds {
    start: u64,
    count: AtomicU64,
}

impl RequestIds {
    /// Ids that begin with a number that the caller drew at random.
    #[must_use]
    pub const fn new(start: u64) -> Self {
        Self {
            start,
            count: AtomicU64::new(0),
        }
    }

    /// The id of a request: the one it brings if that is sane, else a new one. An id goes into
    /// logs and tickets, so nothing but letters, digits and `-._~:` may be in it.
    #[must_use]
    pub fn for_request(&self, heads: &RequestHeaders<'_>) -> RequestId {
        match heads.request_id.value() {
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

/// What a handler is told about the request beside its parameters.
#[derive(Clone, Debug)]
pub struct Context {
    /// The instant of the request: read once, at the edge.
    pub now: UnixSeconds,
    /// Its id.
    pub request_id: RequestId,
    /// The address it comes from: the peer's, or the right-most untrusted hop behind a trusted proxy.
    pub peer: IpAddr,
    /// The viewer's country as a trusted proxy tells it.
    pub told_country: Option<Country>,
    /// `Accept-Language`, for texts that are made for a viewer.
    pub accept_language: Option<HeaderValue>,
    /// What is recorded of the request, if it is an operator's and changes something.
    pub change: Option<Box<Change>>,
}

impl Context {
    /// The viewer's country, as far as it is known: as a trusted proxy tells it, else by the
    /// operator's database. Looked up when it is asked for: most requests need none.
    #[must_use]
    pub fn country(&self, places: Option<&GeoIp>) -> Option<Country> {
        self.told_country.or_else(|| places?.country(self.peer))
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::http::headers::HeaderNames;

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
