//! The request context of a handler: what it receives in addition to its parameters, such as the request id and the
//! client address, for limits and logs.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use data_encoding::HEXLOWER;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::request::headers::RequestHeaders;
use playgate_config::Network;
use playgate_config::limits::{FORWARDED_HOPS, REQUEST_ID_MAX};
use playgate_domain::audit::AuditedChange;
use playgate_domain::decision::DecisionTrace;
use playgate_domain::playback::RequestTime;
use playgate_ports::geoip::GeoIp;
use playgate_types::{Country, UnixSeconds};

/// Appears in every log line of a request and in `X-Request-Id` of its response.
#[derive(Clone, Debug)]
pub enum RequestId {
    /// Generated: a number drawn at process start, and a counter.
    Made(u64, u64),
    Echoed(HeaderValue),
}

impl RequestId {
    pub fn header(&self) -> HeaderValue {
        match self {
            Self::Made(start, count) => {
                // Not with `format!`: every response has an id, so this must be cheap.
                let text = [hex16(*start), hex16(*count)];
                HeaderValue::from_bytes(text.as_flattened())
                    .unwrap_or_else(|_| HeaderValue::from_static("0"))
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

/// Returns the 16 hexadecimal digits of a number, several times faster than `format!`.
pub(crate) fn hex16(number: u64) -> [u8; 16] {
    let mut text = [0; 16];
    HEXLOWER.encode_mut(&number.to_be_bytes(), &mut text);
    text
}

pub struct RequestIds {
    start: u64,
    count: AtomicU64,
}

impl RequestIds {
    /// `start` must be random, so that ids do not repeat after a restart.
    pub const fn new(start: u64) -> Self {
        Self {
            start,
            count: AtomicU64::new(0),
        }
    }

    /// Returns the id that the client sent if it is valid, else a new one.
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
pub struct Context {
    /// The instant of the request, read only once so that all decisions agree. In the time of the partner, whose clock a
    /// lab may move.
    pub now: UnixSeconds,
    /// The same instant by the clock of the server.
    pub server_now: UnixSeconds,
    pub request_id: RequestId,
    pub peer: IpAddr,
    pub reported_country: Option<Country>,
    pub accept_language: Option<HeaderValue>,
    pub change: Option<Box<AuditedChange>>,
    pub trace: DecisionTrace,
}

impl Context {
    pub const fn time(&self) -> RequestTime {
        RequestTime {
            partner: self.now,
            server: self.server_now,
        }
    }

    /// Returns the viewer's country: from a trusted proxy, else from the GeoIP database.
    pub fn country(&self, places: Option<&GeoIp>) -> Option<Country> {
        // Looked up on demand: most requests do not need it.
        self.reported_country.or_else(|| places?.country(self.peer))
    }
}

/// The only forwarding header that is read. A proxy sets one header and passes others through unchanged, so
/// reading a second one would let clients choose their address.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// Returns the address that a request counts for: the peer, or behind a trusted proxy the right-most hop that
/// is not a trusted proxy. If a hop cannot be parsed, the request counts for the peer.
pub(crate) fn client_address(peer: IpAddr, headers: &HeaderMap, proxies: &[Network]) -> IpAddr {
    let trusted = |address: IpAddr| proxies.iter().any(|network| network.contains(address));
    // A client that connects directly may send the header too; it is ignored.
    if !trusted(peer) {
        return peer;
    }
    let values: Vec<&str> = headers
        .get_all(FORWARDED_FOR)
        .iter()
        .map(|value| value.to_str().unwrap_or_default())
        .collect();
    let mut last = peer;
    // Read from the right, because each proxy appends the peer that it saw. Hops to the left of the last trusted proxy
    // are claims of the client.
    let hops = values.iter().rev().flat_map(|value| value.rsplit(','));
    for (at, hop) in hops.enumerate() {
        // Proxies send bare addresses or ones with ports; anything else was made up.
        let Some(address) = address(hop.trim()).filter(|_| at < FORWARDED_HOPS) else {
            return peer;
        };
        if !trusted(address) {
            return address;
        }
        last = address;
    }
    last
}

/// Returns the country that a proxy reported in the header `name`. Only trusted proxies are believed.
pub(crate) fn reported_country(
    peer: IpAddr,
    headers: &HeaderMap,
    name: &HeaderName,
    proxies: &[Network],
) -> Option<Country> {
    let trusted = proxies.iter().any(|network| network.contains(peer));
    let value = headers.get(name).filter(|_| trusted)?;
    Country::parse(value.to_str().ok()?).ok()
}

/// Parses an address as proxies write it: bare or in brackets, with or without a port.
fn address(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address.to_canonical());
    }
    if let Ok(socket) = text.parse::<std::net::SocketAddr>() {
        return Some(socket.ip().to_canonical());
    }
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    inner.parse::<IpAddr>().ok().map(|a| a.to_canonical())
}

/// Maps an address to the unit that limits count. An IPv6 customer has at least a /64.
pub(crate) fn counted_as(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) => IpAddr::V4(v4),
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() & !u128::from(u64::MAX)).into()),
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};

    use super::*;
    use crate::request::headers::HeaderNames;

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

    fn of(peer: &str, forwarded: &[&str]) -> String {
        let proxies = [Network::parse("10.0.0.0/8").unwrap()];
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append(FORWARDED_FOR, HeaderValue::from_str(value).unwrap());
        }
        client_address(peer.parse().unwrap(), &headers, &proxies).to_string()
    }

    #[test]
    fn the_header_counts_only_from_trusted_proxies() {
        assert_eq!(of("203.0.113.9", &["1.1.1.1"]), "203.0.113.9");
        assert_eq!(of("10.0.0.1", &["1.1.1.1"]), "1.1.1.1");
        assert_eq!(of("10.0.0.1", &[]), "10.0.0.1");
    }

    #[test]
    fn the_right_most_untrusted_hop_counts() {
        assert_eq!(of("10.0.0.1", &["6.6.6.6, 2.2.2.2, 10.0.0.2"]), "2.2.2.2");
        assert_eq!(of("10.0.0.1", &["6.6.6.6", "2.2.2.2:4711"]), "2.2.2.2");
        assert_eq!(of("10.0.0.1", &["[2001:db8::1]:80"]), "2001:db8::1");
        assert_eq!(of("10.0.0.1", &["::ffff:2.2.2.2"]), "2.2.2.2");
        assert_eq!(of("10.0.0.1", &["10.0.0.3, 10.0.0.2"]), "10.0.0.3");
    }

    #[test]
    fn an_invalid_hop_counts_as_the_peer() {
        for bad in ["", "unknown", "1.1.1.1, x", "1.1.1.1,", "\u{e4}", "_hidden"] {
            assert_eq!(of("10.0.0.1", &[bad]), "10.0.0.1", "{bad}");
        }
        let many = vec!["10.0.0.2"; 100].join(",");
        assert_eq!(of("10.0.0.1", &[&format!("1.1.1.1,{many}")]), "10.0.0.1");
    }

    #[test]
    fn an_ipv6_customer_is_one_address() {
        let a = counted_as("2001:db8::1".parse().unwrap());
        assert_eq!(a, counted_as("2001:db8::ffff:0:1".parse().unwrap()));
        assert_ne!(a, counted_as("2001:db8:0:1::1".parse().unwrap()));
        assert_eq!(
            counted_as("::ffff:1.2.3.4".parse().unwrap()),
            "1.2.3.4".parse::<IpAddr>().unwrap()
        );
    }
}
