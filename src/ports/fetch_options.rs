//! What the request of an EPG source says about itself, and the cookies of one fetch.

use std::fmt;
use std::time::Duration;

use data_encoding::BASE64;
use http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, COOKIE, HOST, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    SET_COOKIE, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue};

/// Most cookies of one fetch, and bytes of each: the server chooses them.
const COOKIES_MAX: usize = 20;
const COOKIE_MAX: usize = 4_096;

static DEFAULT_AGENT: HeaderValue =
    HeaderValue::from_static(concat!("playgate/", env!("CARGO_PKG_VERSION")));

#[derive(Debug, Clone, Copy)]
pub struct FetchTimeouts {
    /// Time to accept a connection and to begin the response.
    pub answer: Duration,
    /// Time between two chunks of the body.
    pub piece: Duration,
    pub whole: Duration,
}

impl Default for FetchTimeouts {
    fn default() -> Self {
        Self {
            // Some servers make the guide when they are asked.
            answer: Duration::from_secs(120),
            piece: Duration::from_secs(30),
            // 150 MB at 170 KB/s.
            whole: Duration::from_secs(15 * 60),
        }
    }
}

/// Has no `Debug` of its values: headers hold keys and passwords.
#[derive(Clone, Default)]
pub struct FetchOptions {
    pub user_agent: Option<HeaderValue>,
    /// Sent to the host of the source only, and to no other that it redirects to.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    pub timeouts: Option<FetchTimeouts>,
    /// Refuses an address inside the network: nobody inside has chosen it.
    pub only_public: bool,
}

impl fmt::Debug for FetchOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FetchOptions({} headers)", self.headers.len())
    }
}

/// Header names that the client sets.
const RESERVED_HEADERS: [HeaderName; 8] = [
    ACCEPT_ENCODING,
    CONNECTION,
    CONTENT_LENGTH,
    HOST,
    IF_MODIFIED_SINCE,
    IF_NONE_MATCH,
    TRANSFER_ENCODING,
    UPGRADE,
];

impl FetchOptions {
    /// # Errors
    /// What is wrong with the header, as the end of a sentence.
    pub fn add_header(&mut self, name: &str, value: &str) -> Result<(), String> {
        let parsed = HeaderName::try_from(name);
        let parsed = parsed.map_err(|_| format!("has `{name}`, which is no name of a header"))?;
        if RESERVED_HEADERS.contains(&parsed) {
            return Err(format!(
                "has `{name}`, which Playgate sets itself; remove it"
            ));
        }
        self.headers.push((parsed, header_value(value)?));
        Ok(())
    }

    /// # Errors
    /// If the text cannot be the value of a header.
    pub fn set_user_agent(&mut self, text: &str) -> Result<(), String> {
        self.user_agent = Some(header_value(text)?);
        Ok(())
    }

    pub(super) fn agent(&self) -> &HeaderValue {
        self.user_agent.as_ref().unwrap_or(&DEFAULT_AGENT)
    }

    /// Adds a user and a password (RFC 7617).
    ///
    /// # Errors
    /// If the user has a colon, which ends it.
    pub fn set_credentials(&mut self, user: &str, password: &str) -> Result<(), String> {
        if user.contains(':') {
            return Err("must not contain a colon".to_owned());
        }
        let both = BASE64.encode(format!("{user}:{password}").as_bytes());
        self.add_header("authorization", &format!("Basic {both}"))
    }

    /// Sets the time to the first byte of an answer, and between two parts of it. The whole may take longer.
    pub fn set_timeout(&mut self, timeout: Duration) {
        let usual = FetchTimeouts::default();
        self.timeouts = Some(FetchTimeouts {
            answer: timeout,
            piece: timeout.max(usual.piece),
            whole: usual.whole.max(timeout.saturating_mul(2)),
        });
    }
}

fn header_value(text: &str) -> Result<HeaderValue, String> {
    // A line break would begin another header.
    let mut value = HeaderValue::from_str(text).map_err(|_| {
        "has a value with line breaks or control characters; remove them".to_owned()
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// Scheme, host and port of an address.
pub(super) fn origin(address: &str) -> &str {
    let host = address.find("://").map_or(0, |at| at + 3);
    let rest = address.get(host..).unwrap_or_default();
    let end = rest
        .find(['/', '?', '#'])
        .map_or(address.len(), |at| host + at);
    address.get(..end).unwrap_or(address)
}

/// Cookies that a server sets on its way to the guide: some send a client back and forth until it has them.
#[derive(Default)]
pub(super) struct Cookies(Vec<(String, String, String)>);

impl Cookies {
    pub(super) fn learn(&mut self, host: &str, headers: &HeaderMap) {
        for value in headers.get_all(SET_COOKIE) {
            let pair = value.to_str().ok().and_then(|text| text.split(';').next());
            let Some((name, value)) = pair.and_then(|pair| pair.split_once('=')) else {
                continue;
            };
            let (name, value) = (name.trim().to_owned(), value.trim().to_owned());
            self.0
                .retain(|(of, known, _)| !(of == host && *known == name));
            if self.0.len() < COOKIES_MAX && name.len() + value.len() <= COOKIE_MAX {
                self.0.push((host.to_owned(), name, value));
            }
        }
    }

    pub(super) fn header(&self, host: &str) -> Option<(HeaderName, HeaderValue)> {
        let of_host = self.0.iter().filter(|(of, _, _)| of == host);
        let pairs: Vec<String> = of_host
            .map(|(_, name, value)| format!("{name}={value}"))
            .collect();
        let value = HeaderValue::from_str(&pairs.join("; ")).ok()?;
        (!pairs.is_empty()).then_some((COOKIE, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_cannot_begin_another_one() {
        let mut options = FetchOptions::default();
        for (name, value, what) in [
            ("X-Key", "a\r\nHost: evil", "line breaks"),
            ("X Key", "a", "no name"),
            ("X-Key\r\nHost", "a", "no name"),
            ("Host", "evil", "sets itself"),
            ("content-length", "5", "sets itself"),
        ] {
            let error = options.add_header(name, value).unwrap_err();
            assert!(error.contains(what), "{error}");
        }
        assert!(options.set_user_agent("a\nb").is_err());
        assert!(options.set_credentials("a:b", "c").is_err());
        options.set_credentials("käll", "p:w").unwrap();
        assert_eq!(options.headers[0].1, "Basic a8OkbGw6cDp3");
        assert_eq!(format!("{options:?}"), "FetchOptions(1 headers)");
    }

    #[test]
    fn cookies_belong_to_their_host_and_are_bounded() {
        let mut cookies = Cookies::default();
        let mut headers = HeaderMap::new();
        headers.append(SET_COOKIE, HeaderValue::from_static("a=1; Path=/"));
        headers.append(SET_COOKIE, HeaderValue::from_static("b=2"));
        headers.append(SET_COOKIE, HeaderValue::from_static("broken"));
        cookies.learn("one", &headers);
        assert_eq!(cookies.header("one").unwrap().1, "a=1; b=2");
        assert!(cookies.header("two").is_none());
        for number in 0..100 {
            let value = HeaderValue::from_str(&format!("c{number}=3")).unwrap();
            let headers = HeaderMap::from_iter([(SET_COOKIE, value)]);
            cookies.learn("one", &headers);
        }
        assert_eq!(cookies.0.len(), COOKIES_MAX);
    }
}
