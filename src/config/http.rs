//! Settings of the HTTP server: clients, trusted proxies and the public address.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use playgate_types::Malformed;

/// The deployment of this installation. It is only shown, except that `production` rejects lab settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Environment {
    #[default]
    Production,
    Staging,
}

impl Environment {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Production => "production",
            Self::Staging => "staging",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    base: u128,
    bits: u32,
}

fn widen(address: IpAddr) -> u128 {
    match address {
        // One comparison serves both families, and a proxy seen through a dual-stack socket matches its IPv4 entry.
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

impl Network {
    /// The base address, IPv4 mapped into IPv6, and the number of bits that count.
    pub const fn parts(&self) -> (u128, u32) {
        (self.base, self.bits)
    }

    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let malformed = Malformed("must be an address or a network such as 10.0.0.0/8");
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| malformed)?;
        let (most, before) = match address {
            IpAddr::V4(_) => (32, 96),
            IpAddr::V6(_) => (128, 0),
        };
        let length = match length {
            Some(length) => length.parse::<u32>().map_err(|_| malformed)?,
            None => most,
        };
        if length > most {
            return Err(malformed);
        }
        let bits = before + length;
        Ok(Self {
            base: widen(address) & Self::mask(bits),
            bits,
        })
    }

    const fn mask(bits: u32) -> u128 {
        // A shift by 128 overflows.
        if bits == 0 {
            0
        } else {
            u128::MAX << (128 - bits)
        }
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        widen(address) & Self::mask(self.bits) == self.base
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wide = Ipv6Addr::from_bits(self.base);
        match wide.to_ipv4_mapped() {
            Some(address) if self.bits >= 96 => write!(f, "{address}/{}", self.bits - 96),
            _ => write!(f, "{wide}/{}", self.bits),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CorsOrigins {
    Any,
    Listed(Vec<String>),
}

#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// `{base_url}`, without a trailing slash.
    pub public_url: String,
    pub environment: Environment,
    pub header_prefix: String,
    pub trusted_proxies: Vec<Network>,
    pub cors_origins: CorsOrigins,
    pub ops_hosts: Vec<String>,
    pub language: String,
    pub geo_header: Option<String>,
    pub access_log: bool,
    pub sunset: Option<String>,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            public_url: "http://127.0.0.1:8080".to_owned(),
            environment: Environment::default(),
            header_prefix: "Service-".to_owned(),
            trusted_proxies: Vec::new(),
            cors_origins: CorsOrigins::Any,
            ops_hosts: Vec::new(),
            language: "en".to_owned(),
            geo_header: None,
            access_log: false,
            sunset: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_contain_their_addresses() {
        let holds = |network: &str, address: &str| {
            Network::parse(network)
                .unwrap()
                .contains(address.parse().unwrap())
        };
        assert!(holds("10.0.0.0/8", "10.255.0.1"));
        assert!(!holds("10.0.0.0/8", "11.0.0.1"));
        assert!(holds("10.0.0.0/8", "::ffff:10.1.2.3"));
        assert!(holds("192.0.2.1", "192.0.2.1"));
        assert!(!holds("192.0.2.1", "192.0.2.2"));
        assert!(holds("2001:db8::/32", "2001:db8:ffff::1"));
        assert!(holds("0.0.0.0/0", "8.8.8.8"));
        assert!(!holds("0.0.0.0/0", "2001:db8::1"));
        assert!(holds("::/0", "8.8.8.8"));
        for bad in ["", "x", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/", "::/129"] {
            assert!(Network::parse(bad).is_err(), "{bad}");
        }
    }
}
