//! The headers of a request, read in one walk, and the names that the configured prefix gives ours.
//!
//! A header map hashes a name for each look-up. A heartbeat carries 14 headers of ours: walking the
//! map once and comparing the rest of the name after the prefix costs a third of looking them up.

use http::{HeaderMap, HeaderValue};

use super::error::{ApiError, ErrorCode};
use crate::config::limits::{HEADER_BLOCK_MAX, HEADERS_MAX};

/// The names of our headers under the configured prefix.
pub struct HeaderNames {
    /// Lower case, as the header map has names.
    prefix: String,
    /// As configured, for what people and clients see.
    shown: String,
    /// The challenge of a 401 about the partner token.
    pub partner_challenge: HeaderValue,
}

impl HeaderNames {
    /// The names under `prefix`, such as `Service-`.
    ///
    /// # Errors
    /// Gives the prefix back if no header can begin with it.
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

    /// A name in full, such as `Service-Play-Session` for `Play-Session`.
    #[must_use]
    pub fn full(&self, rest: &str) -> String {
        format!("{}{rest}", self.shown)
    }
}

/// A header that may be absent and must not be repeated.
#[derive(Clone, Copy, Debug, Default)]
pub enum SingleHeader<'a> {
    /// Not sent.
    #[default]
    Absent,
    /// Sent once.
    One(&'a HeaderValue),
    /// Sent twice or more.
    Repeated,
}

impl<'a> SingleHeader<'a> {
    fn insert(&mut self, value: &'a HeaderValue) {
        *self = match self {
            Self::Absent => Self::One(value),
            Self::One(_) | Self::Repeated => Self::Repeated,
        };
    }

    /// The value, if it was sent once.
    #[must_use]
    pub fn value(self) -> Option<&'a HeaderValue> {
        match self {
            Self::One(value) => Some(value),
            Self::Absent | Self::Repeated => None,
        }
    }

    /// The value as text, if it was sent once and is visible ASCII.
    #[must_use]
    pub fn ascii(self) -> Option<&'a str> {
        self.value()?.to_str().ok()
    }

    /// The value as text, absent or present.
    ///
    /// # Errors
    /// `INVALID_REQUEST` that names the header if it is repeated or no UTF-8.
    pub fn optional(self, names: &HeaderNames, rest: &str) -> Result<Option<&'a str>, ApiError> {
        match self {
            Self::Absent => Ok(None),
            Self::One(value) => std::str::from_utf8(value.as_bytes())
                .map(Some)
                .map_err(|_| ApiError::field(names.full(rest), "is not valid UTF-8")),
            Self::Repeated => Err(ApiError::field(names.full(rest), "is sent more than once")),
        }
    }

    /// The value as text.
    ///
    /// # Errors
    /// `INVALID_REQUEST` that names the header if it is missing, repeated or no UTF-8.
    pub fn required(self, names: &HeaderNames, rest: &str) -> Result<&'a str, ApiError> {
        self.optional(names, rest)?
            .ok_or_else(|| ApiError::field(names.full(rest), "is missing"))
    }
}

/// A header that is a list: its lines count as one (RFC 9110, part 5.3).
#[derive(Clone, Copy, Debug, Default)]
pub enum HeaderLines<'a> {
    /// Not sent.
    #[default]
    Absent,
    /// One line.
    One(&'a HeaderValue),
    /// Several lines, which are looked up by this name.
    Several(&'a HeaderMap, &'static str),
}

impl<'a> HeaderLines<'a> {
    fn insert(&mut self, map: &'a HeaderMap, name: &'static str, value: &'a HeaderValue) {
        *self = match self {
            Self::Absent => Self::One(value),
            Self::One(_) | Self::Several(..) => Self::Several(map, name),
        };
    }

    /// Whether the header was not sent.
    #[must_use]
    pub const fn is_absent(self) -> bool {
        matches!(self, Self::Absent)
    }

    /// The values of the lines, in their order.
    pub fn values(self) -> impl Iterator<Item = &'a HeaderValue> {
        let (one, several) = match self {
            Self::Absent => (None, None),
            Self::One(value) => (Some(value), None),
            Self::Several(map, name) => (None, Some(map.get_all(name).iter())),
        };
        one.into_iter().chain(several.into_iter().flatten())
    }

    /// The elements of a list that is separated by commas. A line with other characters than visible
    /// ASCII has none that we know.
    pub fn elements(self) -> impl Iterator<Item = &'a str> {
        self.values()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|text| text.split(','))
            .map(str::trim)
            .filter(|element| !element.is_empty())
    }

    /// All lines as one value.
    #[must_use]
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

/// The headers `Service-Play-…`.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlayHeaders<'a> {
    /// `DRM`.
    pub drm: SingleHeader<'a>,
    /// `Protocol`.
    pub protocol: SingleHeader<'a>,
    /// `EntitlementId`: the Entitlement Token.
    pub entitlement: SingleHeader<'a>,
    /// `DevicePlatform`.
    pub device_platform: SingleHeader<'a>,
    /// `DeviceType`.
    pub device_type: SingleHeader<'a>,
    /// `DeviceModel`.
    pub device_model: SingleHeader<'a>,
    /// `DeviceId`.
    pub device_id: SingleHeader<'a>,
    /// `Session`.
    pub session: SingleHeader<'a>,
    /// `Timestamp`.
    pub timestamp: SingleHeader<'a>,
    /// `Bitrate`.
    pub bitrate: SingleHeader<'a>,
    /// `ResolutionWidth`.
    pub width: SingleHeader<'a>,
    /// `ResolutionHeight`.
    pub height: SingleHeader<'a>,
}

/// The headers of a request that mean something to us.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestHeaders<'a> {
    /// The partner token.
    pub access_token: SingleHeader<'a>,
    /// The headers of playback.
    pub play: PlayHeaders<'a>,
    /// `Authorization`.
    pub authorization: SingleHeader<'a>,
    /// `Host`.
    pub host: SingleHeader<'a>,
    /// `Transfer-Encoding`.
    pub transfer_encoding: HeaderLines<'a>,
    /// `Content-Length`.
    pub content_length: SingleHeader<'a>,
    /// `Content-Encoding`.
    pub content_encoding: SingleHeader<'a>,
    /// `Expect`.
    pub expect: SingleHeader<'a>,
    /// `Origin`.
    pub origin: SingleHeader<'a>,
    /// `Accept-Encoding`.
    pub accept_encoding: HeaderLines<'a>,
    /// `Accept-Language`.
    pub accept_language: HeaderLines<'a>,
    /// `If-None-Match`.
    pub if_none_match: HeaderLines<'a>,
    /// `If-Range`.
    pub if_range: SingleHeader<'a>,
    /// `Range`.
    pub range: SingleHeader<'a>,
    /// `X-Request-Id`.
    pub request_id: SingleHeader<'a>,
    /// Names, values and separators, in bytes.
    bytes: usize,
    count: usize,
}

impl<'a> RequestHeaders<'a> {
    /// Walks the map once.
    #[must_use]
    pub fn read(map: &'a HeaderMap, names: &HeaderNames) -> Self {
        let mut heads = Self::default();
        for (name, value) in map {
            let name = name.as_str();
            // `: ` and the line end.
            heads.bytes += name.len() + value.len() + 4;
            heads.count += 1;
            if let Some(rest) = name.strip_prefix(names.prefix.as_str()) {
                heads.put_ours(rest, value);
            } else {
                heads.put_standard(map, name, value);
            }
        }
        heads
    }

    fn put_ours(&mut self, rest: &str, value: &'a HeaderValue) {
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

    fn put_standard(&mut self, map: &'a HeaderMap, name: &str, value: &'a HeaderValue) {
        let slot = match name {
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
            "content-encoding" => &mut self.content_encoding,
            "expect" => &mut self.expect,
            "range" => &mut self.range,
            "if-range" => &mut self.if_range,
            _ => return,
        };
        slot.insert(value);
    }

    /// Whether the block keeps the limits; `line` is the length of the request line.
    ///
    /// # Errors
    /// 431.
    pub fn check_size(&self, line: usize) -> Result<(), ApiError> {
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
    fn ours_are_found_under_any_prefix() {
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
}
