//! Addresses that a listener can bind to.

use std::fmt;
use std::path::PathBuf;

use super::setting::Read;
use playgate_decode::Node;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ListenAddress {
    /// `host:port`; the system chooses the port if it is 0.
    Tcp { host: String, port: u16 },
    /// `unix:PATH`.
    Unix(PathBuf),
    /// `socket:NAME`: a socket passed by the service manager, by its `FileDescriptorName`.
    Passed(String),
}

impl ListenAddress {
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            // The kernel's limit for a socket path.
            return if path.is_empty() || path.len() > 107 {
                Err("`unix:` must be followed by a path of at most 107 bytes".to_owned())
            } else {
                Ok(Self::Unix(path.into()))
            };
        }
        if let Some(name) = text.strip_prefix("socket:") {
            // systemd's limit: 255 characters without a colon.
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            return if name.is_empty() || name.len() > 255 || !name.chars().all(plain) {
                Err("`socket:` must be followed by the name of a passed socket".to_owned())
            } else {
                Ok(Self::Passed(name.to_owned()))
            };
        }
        let form =
            || format!("`{text}` is not an address: use `host:port`, `unix:PATH` or `socket:NAME`");
        let (host, port) = text.rsplit_once(':').ok_or_else(form)?;
        let port = parse_port(port).ok_or_else(|| format!("`{port}` is not a port number"))?;
        let host = match host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
            // Normalised, so that rules across keys recognise two spellings of one address.
            Some(inner) => inner
                .parse::<std::net::Ipv6Addr>()
                .map(|address| address.to_string())
                .map_err(|_| form())?,
            None => host.to_owned(),
        };
        let bracketed = host.contains(':');
        let named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        if host.is_empty()
            || (!bracketed && !host.chars().all(named))
            || is_v6_without_brackets(text)
        {
            return Err(form());
        }
        Ok(Self::Tcp { host, port })
    }
}

fn is_v6_without_brackets(text: &str) -> bool {
    // `::1:80` could be an address with or without a port.
    !text.starts_with('[') && text.matches(':').count() > 1
}

fn parse_port(text: &str) -> Option<u16> {
    // `parse` itself would accept `+80`.
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Passed(name) => write!(f, "socket:{name}"),
        }
    }
}

pub(super) fn host_name(raw: &Node) -> Read<String> {
    let text = raw.text()?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    // The longest name that DNS can express has 253 characters.
    if text.is_empty() || text.len() > 253 || !text.bytes().all(plain) {
        return Err(format!(
            "`{text}` is not a host name such as ops.example, without a port"
        ));
    }
    // Compared with the `Host` header, which is lowered before.
    Ok(text.to_ascii_lowercase())
}

/// Parses the name of a client in EHLO: a host name, or an address in brackets.
pub(super) fn hello_name(raw: &Node) -> Read<String> {
    let text = raw.text()?;
    let literal = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    if let Some(address) = literal {
        let v6 = address.strip_prefix("IPv6:").unwrap_or(address);
        if v6.parse::<std::net::IpAddr>().is_ok() {
            return Ok(text.to_owned());
        }
    }
    // A name in other letters, as it stands in the DNS.
    if !text.is_ascii()
        && let Ok(name) = idna::domain_to_ascii_strict(text)
    {
        return Ok(name);
    }
    host_name(raw)
        .map_err(|_| format!("`{text}` is not a name such as tv.example.org or [192.0.2.1]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_round_trip() {
        for good in [
            "127.0.0.1:8080",
            "0.0.0.0:0",
            "localhost:65535",
            "[::1]:80",
            "[::]:8080",
            "unix:/run/playgate/http.sock",
            "socket:http",
        ] {
            assert_eq!(ListenAddress::parse(good).unwrap().to_string(), good);
        }
    }

    #[test]
    fn invalid_addresses_are_rejected() {
        for bad in [
            "",
            "8080",
            ":8080",
            "localhost",
            "localhost:",
            "localhost:65536",
            "localhost:+1",
            "::1:80",
            "[::1]",
            "[x]:80",
            "a b:80",
            "http://127.0.0.1:80",
            "unix:",
            "socket:",
            "socket:a b",
        ] {
            assert!(ListenAddress::parse(bad).is_err(), "{bad:?}");
        }
    }
}
