//! Determines the client address of a request, for limits and logs, and its country as a proxy reports it.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName};

use crate::config::http::Network;
use crate::config::limits::FORWARDED_HOPS;
use crate::types::Country;

/// The only forwarding header that is read. A proxy sets one header and passes others through unchanged, so
/// reading a second one would let clients choose their address.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// Returns the address that a request counts for: the peer, or behind a trusted proxy the right-most hop that
/// is not a trusted proxy. If a hop cannot be parsed, the request counts for the peer.
#[must_use]
pub(crate) fn client(peer: IpAddr, headers: &HeaderMap, proxies: &[Network]) -> IpAddr {
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
    // From the right: each proxy appends the peer that it saw. What is left of the last trusted proxy is the
    // client's claim.
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
#[must_use]
pub(crate) fn counted_as(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) => IpAddr::V4(v4),
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() & !u128::from(u64::MAX)).into()),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn of(peer: &str, forwarded: &[&str]) -> String {
        let proxies = [Network::parse("10.0.0.0/8").unwrap()];
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append(FORWARDED_FOR, HeaderValue::from_str(value).unwrap());
        }
        client(peer.parse().unwrap(), &headers, &proxies).to_string()
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
