//! Reads the request headers in one pass, and builds the header names with the configured prefix.
//!
//! A header map hashes the name for each look-up. A heartbeat carries 14 prefixed headers; one pass that
//! compares the rest of each name costs a third of 14 look-ups.

use http::{HeaderMap, HeaderValue};

use crate::errors::api_error::{ApiError, ErrorCode};
use playgate_config::limits::{HEADER_BLOCK_MAX, HEADERS_MAX};

pub struct HeaderNames {
    prefix: String,
    /// The prefix as configured, for messages and documentation.
    shown: String,
    /// The `WWW-Authenticate` value for a missing or invalid partner token.
    pub partner_challenge: HeaderValue,
}

impl HeaderNames {
    /// Creates the names for a prefix such as `Service-`.
    ///
    /// # Errors
    /// The prefix itself, if no header name can start with it.
    pub fn new(prefix: &str) -> Result<Self, String> {
        let name = format!("{prefix}AccessToken");
        let token = !prefix.is_empty()
            && prefix.len() <= 64
            && prefix
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-');
        match HeaderValue::from_str(&name) {
            Ok(partner_challenge) if token => Ok(Self {
                prefix: prefix.to_ascii_lowercase(),
                shown: prefix.to_owned(),
                partner_challenge,
            }),
            _ => Err(prefix.to_owned()),
        }
    }

    /// Returns a full name, such as `Service-Play-Session` for `Play-Session`.
    pub fn full(&self, rest: &str) -> String {
        // `format!` takes 900 instructions, and a preflight builds seven of these names.
        [&self.shown, rest].concat()
    }
}

/// A header that may be absent and must not be repeated.
#[derive(Clone, Copy, Debug, Default)]
pub enum SingleHeader<'a> {
    #[default]
    Absent,
    One(&'a HeaderValue),
    Repeated,
}

impl<'a> SingleHeader<'a> {
    fn insert(&mut self, value: &'a HeaderValue) {
        *self = match self {
            Self::Absent => Self::One(value),
            Self::One(_) | Self::Repeated => Self::Repeated,
        };
    }

    pub fn value(self) -> Option<&'a HeaderValue> {
        match self {
            Self::One(value) => Some(value),
            Self::Absent | Self::Repeated => None,
        }
    }

    pub fn ascii(self) -> Option<&'a str> {
        self.value()?.to_str().ok()
    }

    pub fn optional(self, names: &HeaderNames, rest: &str) -> Result<Option<&'a str>, ApiError> {
        match self {
            Self::Absent => Ok(None),
            Self::One(value) => std::str::from_utf8(value.as_bytes())
                .map(Some)
                .map_err(|_| ApiError::field(names.full(rest), "is not valid UTF-8")),
            Self::Repeated => Err(ApiError::field(names.full(rest), "is sent more than once")),
        }
    }

    /// Returns the bytes of a text that may be in Latin-1.
    pub fn required_bytes(self, names: &HeaderNames, rest: &str) -> Result<&'a [u8], ApiError> {
        match self {
            Self::Absent => Err(ApiError::field(names.full(rest), "is missing")),
            Self::One(value) => Ok(value.as_bytes()),
            Self::Repeated => Err(ApiError::field(names.full(rest), "is sent more than once")),
        }
    }

    pub fn required(self, names: &HeaderNames, rest: &str) -> Result<&'a str, ApiError> {
        self.optional(names, rest)?
            .ok_or_else(|| ApiError::field(names.full(rest), "is missing"))
    }
}

/// A list header. Several lines count as one (RFC 9110, section 5.3).
#[derive(Clone, Copy, Debug, Default)]
pub enum HeaderLines<'a> {
    #[default]
    Absent,
    One(&'a HeaderValue),
    /// Several lines, looked up by name when they are needed.
    Several(&'a HeaderMap, &'static str),
}

impl<'a> HeaderLines<'a> {
    fn insert(&mut self, map: &'a HeaderMap, name: &'static str, value: &'a HeaderValue) {
        *self = match self {
            Self::Absent => Self::One(value),
            Self::One(_) | Self::Several(..) => Self::Several(map, name),
        };
    }

    pub const fn is_absent(self) -> bool {
        matches!(self, Self::Absent)
    }

    pub fn values(self) -> impl Iterator<Item = &'a HeaderValue> {
        let (one, several) = match self {
            Self::Absent => (None, None),
            Self::One(value) => (Some(value), None),
            Self::Several(map, name) => (None, Some(map.get_all(name).iter())),
        };
        one.into_iter().chain(several.into_iter().flatten())
    }

    /// Returns the comma-separated elements. Lines that are not visible ASCII are skipped.
    pub fn elements(self) -> impl Iterator<Item = &'a str> {
        self.values()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|text| text.split(','))
            .map(str::trim)
            .filter(|element| !element.is_empty())
    }

    pub fn joined(self) -> Option<HeaderValue> {
        match self {
            Self::Absent => None,
            Self::One(value) => Some(value.clone()),
            Self::Several(..) => {
                let elements: Vec<&str> = self.elements().collect();
                HeaderValue::from_str(&elements.join(", ")).ok()
            }
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct PlayHeaders<'a> {
    pub drm: SingleHeader<'a>,
    pub protocol: SingleHeader<'a>,
    pub entitlement: SingleHeader<'a>,
    pub device_platform: SingleHeader<'a>,
    pub device_type: SingleHeader<'a>,
    pub device_model: SingleHeader<'a>,
    pub device_id: SingleHeader<'a>,
    pub session: SingleHeader<'a>,
    pub timestamp: SingleHeader<'a>,
    pub bitrate: SingleHeader<'a>,
    pub width: SingleHeader<'a>,
    pub height: SingleHeader<'a>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct RequestHeaders<'a> {
    pub access_token: SingleHeader<'a>,
    pub play: PlayHeaders<'a>,
    pub authorization: SingleHeader<'a>,
    pub host: SingleHeader<'a>,
    pub transfer_encoding: HeaderLines<'a>,
    pub content_length: SingleHeader<'a>,
    pub content_encoding: SingleHeader<'a>,
    pub expect: SingleHeader<'a>,
    pub origin: SingleHeader<'a>,
    pub accept: HeaderLines<'a>,
    pub accept_encoding: HeaderLines<'a>,
    pub accept_language: HeaderLines<'a>,
    pub if_none_match: HeaderLines<'a>,
    pub if_range: SingleHeader<'a>,
    pub range: SingleHeader<'a>,
    pub request_id: SingleHeader<'a>,
    pub user_agent: SingleHeader<'a>,
    bytes: usize,
    count: usize,
}

impl<'a> RequestHeaders<'a> {
    pub fn read(map: &'a HeaderMap, names: &HeaderNames) -> Self {
        let mut heads = Self::default();
        for (name, value) in map {
            let name = name.as_str();
            // Four bytes for `: ` and the line end.
            heads.bytes += name.len() + value.len() + 4;
            heads.count += 1;
            // Both the names of the header map and the prefix are in lower case.
            if let Some(rest) = name.strip_prefix(names.prefix.as_str()) {
                heads.insert_prefixed(rest, value);
            } else {
                heads.insert_standard(map, name, value);
            }
        }
        heads
    }

    fn insert_prefixed(&mut self, rest: &str, value: &'a HeaderValue) {
        let play = &mut self.play;
        let slot = match rest {
            "accesstoken" => &mut self.access_token,
            "play-drm" => &mut play.drm,
            "play-protocol" => &mut play.protocol,
            "play-entitlementid" => &mut play.entitlement,
            "play-deviceplatform" => &mut play.device_platform,
            "play-devicetype" => &mut play.device_type,
            "play-devicemodel" => &mut play.device_model,
            "play-deviceid" => &mut play.device_id,
            "play-session" => &mut play.session,
            "play-timestamp" => &mut play.timestamp,
            "play-bitrate" => &mut play.bitrate,
            "play-resolutionwidth" => &mut play.width,
            "play-resolutionheight" => &mut play.height,
            _ => return,
        };
        slot.insert(value);
    }

    fn insert_standard(&mut self, map: &'a HeaderMap, name: &str, value: &'a HeaderValue) {
        let slot = match name {
            "accept" => return self.accept.insert(map, "accept", value),
            "accept-encoding" => return self.accept_encoding.insert(map, "accept-encoding", value),
            "accept-language" => return self.accept_language.insert(map, "accept-language", value),
            "if-none-match" => return self.if_none_match.insert(map, "if-none-match", value),
            "transfer-encoding" => {
                return self
                    .transfer_encoding
                    .insert(map, "transfer-encoding", value);
            }
            "host" => &mut self.host,
            "authorization" => &mut self.authorization,
            "content-length" => &mut self.content_length,
            "origin" => &mut self.origin,
            "x-request-id" => &mut self.request_id,
            "user-agent" => &mut self.user_agent,
            "content-encoding" => &mut self.content_encoding,
            "expect" => &mut self.expect,
            "range" => &mut self.range,
            "if-range" => &mut self.if_range,
            _ => return,
        };
        slot.insert(value);
    }

    /// Checks the size of the header block. `line` is the length of the request line.
    ///
    /// # Errors
    /// `HEADERS_TOO_LARGE`.
    pub fn check_size(&self, line: usize) -> Result<(), ApiError> {
        // The parser's own limit is higher, so that the client gets a body that explains the refusal.
        if self.count > HEADERS_MAX {
            return Err(ApiError::new(
                ErrorCode::HeadersTooLarge,
                format!("a request has at most {HEADERS_MAX} headers"),
            ));
        }
        if self.bytes + line > HEADER_BLOCK_MAX {
            return Err(ApiError::new(
                ErrorCode::HeadersTooLarge,
                format!("the headers have at most {HEADER_BLOCK_MAX} bytes"),
            ));
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodingPreference {
    Identity,
    /// gzip, if it makes the body smaller.
    Gzip,
    /// gzip at any size: the client refuses an uncompressed body.
    OnlyGzip,
}

/// Parses `Accept-Encoding` (RFC 9110, section 12.5.3).
pub fn preferred_encoding(accept: HeaderLines<'_>) -> EncodingPreference {
    if accept.is_absent() {
        return EncodingPreference::Identity;
    }
    let (mut gzip, mut identity, mut other) = (None, None, None);
    for element in accept.elements() {
        let mut parts = element.split(';');
        let coding = parts.next().unwrap_or_default().trim();
        let weight = match coding {
            // RFC 9110, 12.5.3: `*` stands for every coding that the list does not name.
            "*" => &mut other,
            _ if coding.eq_ignore_ascii_case("gzip") => &mut gzip,
            _ if coding.eq_ignore_ascii_case("x-gzip") => &mut gzip,
            _ if coding.eq_ignore_ascii_case("identity") => &mut identity,
            _ => continue,
        };
        // The first weight of a repeated coding counts.
        weight.get_or_insert(quality(parts));
    }
    // `identity` has the lowest weight if the list does not name it, and on equal weights gzip wins. A client that
    // refuses both gets the body uncompressed, which is more useful than a 406.
    let gzip = gzip.or(other).unwrap_or(0);
    match identity.or(other) {
        _ if gzip == 0 => EncodingPreference::Identity,
        Some(0) => EncodingPreference::OnlyGzip,
        Some(identity) if identity > gzip => EncodingPreference::Identity,
        Some(_) | None => EncodingPreference::Gzip,
    }
}

impl RequestHeaders<'_> {
    /// Whether the client names `text/html` in `Accept`, as browsers do when they open a page.
    pub fn names_html(&self) -> bool {
        self.accept.elements().any(|element| {
            let mut parts = element.split(';');
            let media = parts.next().unwrap_or_default().trim();
            media.eq_ignore_ascii_case("text/html") && quality(parts) > 0
        })
    }
}

/// Returns the weight among the parameters of a list element, in thousandths; 1,000 without one.
pub fn quality<'a>(mut parameters: impl Iterator<Item = &'a str>) -> u16 {
    let given = parameters.find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim()
            .eq_ignore_ascii_case("q")
            .then_some(value.trim())
    });
    // An invalid weight means not acceptable: RFC 9110 allows `0` to `1` with up to three decimals.
    given.map_or(1_000, |text| thousandths(text).unwrap_or(0))
}

fn thousandths(text: &str) -> Option<u16> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let plain = decimals.len() <= 3 && decimals.bytes().all(|b| b.is_ascii_digit());
    match whole {
        // `0.5` is 500: the decimals are padded to thousandths.
        "0" if plain => format!("{decimals:0<3}").parse().ok(),
        "1" if plain => Some(1_000),
        _ => None,
    }
}

#[cfg(test)]
pub(crate) fn header_lines(name: &'static str, values: &[&str]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for value in values {
        map.append(name, HeaderValue::from_str(value).unwrap());
    }
    map
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    fn map(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
        }
        map
    }

    #[test]
    fn prefixed_headers_are_found_under_any_prefix() {
        let names = HeaderNames::new("X-Acme-").unwrap();
        let map = map(&[
            ("x-acme-accesstoken", "t"),
            ("x-acme-play-session", "s"),
            ("service-play-session", "other"),
            ("host", "a"),
        ]);
        let heads = RequestHeaders::read(&map, &names);
        assert_eq!(heads.access_token.ascii(), Some("t"));
        assert_eq!(heads.play.session.ascii(), Some("s"));
        assert_eq!(heads.host.ascii(), Some("a"));
        assert_eq!(names.full("Play-Session"), "X-Acme-Play-Session");
        for bad in ["", "a b", "ä-", "x:"] {
            assert!(HeaderNames::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn missing_and_repeated_headers_are_named() {
        let names = HeaderNames::new("Service-").unwrap();
        let map = map(&[("service-play-drm", "a"), ("service-play-drm", "a")]);
        let heads = RequestHeaders::read(&map, &names);
        for (slot, rest) in [
            (heads.play.drm, "Play-DRM"),
            (heads.play.session, "Play-Session"),
        ] {
            let error = slot.required(&names, rest).unwrap_err();
            assert!(error.message().starts_with(&format!("Service-{rest}: ")));
        }
    }

    #[test]
    fn sizes_are_bounded() {
        let names = HeaderNames::new("Service-").unwrap();
        let mut map = HeaderMap::new();
        for _ in 0..HEADERS_MAX {
            map.append("x", HeaderValue::from_static("y"));
        }
        assert!(RequestHeaders::read(&map, &names).check_size(20).is_ok());
        map.append("x", HeaderValue::from_static("y"));
        assert!(RequestHeaders::read(&map, &names).check_size(20).is_err());
        let mut map = HeaderMap::new();
        let long = "y".repeat(HEADER_BLOCK_MAX - 25);
        map.append("x", HeaderValue::from_str(&long).unwrap());
        assert!(RequestHeaders::read(&map, &names).check_size(20).is_ok());
        assert!(RequestHeaders::read(&map, &names).check_size(21).is_err());
    }

    #[test]
    fn weights_are_thousandths() {
        let of = |text: &str| quality(text.split(';').skip(1));
        for (text, weight) in [
            ("de", 1_000),
            ("de;q=1", 1_000),
            ("de; Q=0.5", 500),
            ("de;level=1;q=0.05", 50),
            ("de;q=0", 0),
            ("de;q=0.000", 0),
            ("de;q=", 0),
            ("de;q=2", 0),
            ("de;q=0.1234", 0),
            ("de;q=-1", 0),
        ] {
            assert_eq!(of(text), weight, "{text}");
        }
    }

    #[test]
    fn accept_encoding_is_read_with_weights() {
        use EncodingPreference::{Gzip, Identity, OnlyGzip};
        let names = HeaderNames::new("Service-").unwrap();
        let cases: [(&[&str], EncodingPreference); 27] = [
            (&[], Identity),
            (&[""], Identity),
            (&["gzip"], Gzip),
            (&["GZIP"], Gzip),
            (&["x-gzip"], Gzip),
            (&["br, gzip"], Gzip),
            (&["br", "gzip"], Gzip),
            (&["*"], Gzip),
            (&["gzip;q=0.1"], Gzip),
            (&["*;q=0.5, gzip;q=1.0"], Gzip),
            (&["gzip;q=0.5, identity;q=0.5"], Gzip),
            (&["identity;q=0.4", "gzip;q=0.5"], Gzip),
            (&["identity;q=1, gzip;q=0.5"], Identity),
            (&["identity", "gzip;q=0.5"], Identity),
            (&["*, gzip;q=0.5"], Identity),
            (&["br"], Identity),
            (&["gzip;q=0"], Identity),
            (&["gzip; q=0.000"], Identity),
            (&["*, gzip;q=0"], Identity),
            (&["identity"], Identity),
            (&["*;q=0"], Identity),
            (&["identity;q=0"], Identity),
            (&["identity;q=0, gzip;q=0"], Identity),
            (&["gzip;q=2"], Identity),
            (&["identity;q=0, gzip"], OnlyGzip),
            (&["gzip", "identity;q=0"], OnlyGzip),
            (&["*;q=0, gzip;q=0.1"], OnlyGzip),
        ];
        for (values, expected) in cases {
            let map = header_lines("accept-encoding", values);
            let heads = RequestHeaders::read(&map, &names);
            assert_eq!(
                preferred_encoding(heads.accept_encoding),
                expected,
                "{values:?}"
            );
        }
    }
}
