//! Requests of entitlement, preflight, license and heartbeat. `docs/interface.md` describes the
//! routes.

use std::borrow::Cow;

use bytes::Bytes;
use data_encoding::BASE64URL_NOPAD;
use serde::Deserialize;

use crate::domain::playback::license_challenge;
use crate::http::errors::api_error::{ApiError, ErrorCode};
use crate::http::errors::combine::CombineResults;
use crate::http::request::strict_json::Object;
use crate::http::routing::endpoint::playback_headers::{self, DeviceHeaders};
use crate::http::routing::endpoint::{Input, ParseRequest, Payload};
use crate::types::{AssetId, DeviceId, Drm, LiveOffset, Pin, Protocol, SessionId, TokenHash};

pub(crate) enum PinEntry {
    Absent,
    Unreadable,
    Given(Pin),
}

pub(crate) struct EntitlementRequest {
    pub asset: AssetId,
    pub offset: LiveOffset,
    pub pin: PinEntry,
    pub session: Option<SessionId>,
}

impl ParseRequest for EntitlementRequest {
    fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        let pin = body.text("pinCode").map(|pin| match pin {
            None | Some("") => PinEntry::Absent,
            // Refused only if a PIN is needed: one that is not needed is ignored, whatever it is.
            Some(text) => Pin::parse(text).map_or(PinEntry::Unreadable, PinEntry::Given),
        });
        let session = input.heads.play.session;
        let (asset, session, offset, pin) = (
            input.parsed("assetId", AssetId::parse),
            session.optional(input.names, "Play-Session"),
            input.query.parsed("offset", LiveOffset::parse),
            pin,
        )
            .combine()?;
        Ok(Self {
            asset,
            offset: offset.unwrap_or(LiveOffset::LIVE),
            pin,
            // A player that changes the channel still sends its last session.
            session: session.and_then(|text| SessionId::parse(text).ok()),
        })
    }
}

pub(crate) struct PreflightRequest {
    pub asset: AssetId,
    pub drm: Drm,
    pub protocol: Protocol,
    /// Hash of the Entitlement Token. `None` if the text cannot be a token.
    pub entitlement: Option<TokenHash>,
    pub token: String,
    pub device: DeviceHeaders,
}

impl ParseRequest for PreflightRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let (asset, drm, protocol, entitlement, device) = (
            input.parsed("assetId", AssetId::parse),
            playback_headers::drm(input),
            playback_headers::protocol(input),
            playback_headers::entitlement(input),
            DeviceHeaders::read(input),
        )
            .combine()?;
        let token = input.heads.play.entitlement.ascii().unwrap_or_default();
        // After all headers: a client that misses several learns of them at once.
        if !drm.offered_with(protocol) {
            return Err(ApiError::new(
                ErrorCode::DrmProtocolMismatch,
                format!("{} is not offered with {}", drm.as_str(), protocol.as_str()),
            ));
        }
        Ok(Self {
            asset,
            drm,
            protocol,
            entitlement,
            token: token.to_owned(),
            device,
        })
    }
}

pub(crate) struct LicenseRequest {
    pub system: Drm,
    pub session: SessionId,
    pub entitlement: Option<TokenHash>,
    pub challenge: Bytes,
    pub kids: Vec<[u8; 16]>,
}

impl ParseRequest for LicenseRequest {
    fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        // `/api/playback/v1/{drm}/license`: one route for each system, as their requests differ.
        let system = input.path.split('/').nth(4).and_then(Drm::parse);
        let system = system.ok_or_else(|| ApiError::internal("no DRM system in the path"))?;
        let challenge = payload.whole()?;
        let kids = match system {
            Drm::Clearkey => clear_key_ids(&challenge),
            Drm::Widevine | Drm::Playready | Drm::Fairplay | Drm::None => {
                Ok(license_challenge::key_ids(system, &challenge))
            }
        };
        let (entitlement, session, kids) = (
            playback_headers::entitlement(input),
            playback_headers::session(input),
            kids,
        )
            .combine()?;
        Ok(Self {
            system,
            session,
            entitlement,
            challenge,
            kids,
        })
    }
}

const KIDS_MAX: usize = 64;

#[derive(Debug, Deserialize)]
struct ClearKeyRequest<'a> {
    #[serde(borrow)]
    kids: Vec<Cow<'a, str>>,
}

fn clear_key_ids(challenge: &[u8]) -> Result<Vec<[u8; 16]>, ApiError> {
    // Enforces the rules of all JSON bodies: one object, no duplicate members, bounded depth.
    Object::read(challenge).check()?;
    let request: ClearKeyRequest<'_> = serde_json::from_slice(challenge)
        .map_err(|_| ApiError::field("kids", "must be a list of key ids"))?;
    if request.kids.is_empty() || request.kids.len() > KIDS_MAX {
        return Err(ApiError::field("kids", "must have 1 to 64 key ids"));
    }
    let mut kids = Vec::with_capacity(request.kids.len());
    // All wrong ids are reported at once.
    let mut wrong: Option<ApiError> = None;
    for (at, text) in request.kids.iter().enumerate() {
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok();
        match bytes.and_then(|bytes| <[u8; 16]>::try_from(bytes).ok()) {
            Some(kid) => kids.push(kid),
            None => {
                let why = "must be a key id: 16 bytes in base64url";
                let error = ApiError::field(format!("kids[{at}]"), why);
                wrong = Some(match wrong {
                    Some(first) => first.and(error),
                    None => error,
                });
            }
        }
    }
    wrong.map_or(Ok(kids), Err)
}

pub(crate) struct HeartbeatRequest {
    pub session: SessionId,
    pub entitlement: Option<TokenHash>,
    pub device: DeviceId,
    pub timestamp: i64,
    pub bitrate: i64,
    pub width: i64,
    pub height: i64,
}

impl ParseRequest for HeartbeatRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let headers = &input.heads.play;
        // The session knows its DRM system and protocol; the headers are checked only.
        let (_drm, _protocol, entitlement, device, timestamp, bitrate, width, height, session) = (
            playback_headers::drm(input),
            playback_headers::protocol(input),
            playback_headers::entitlement(input),
            DeviceHeaders::check(input),
            playback_headers::numeric(input, headers.timestamp, "Play-Timestamp"),
            playback_headers::numeric(input, headers.bitrate, "Play-Bitrate"),
            playback_headers::numeric(input, headers.width, "Play-ResolutionWidth"),
            playback_headers::numeric(input, headers.height, "Play-ResolutionHeight"),
            playback_headers::session(input),
        )
            .combine()?;
        Ok(Self {
            session,
            entitlement,
            device,
            timestamp,
            bitrate,
            width,
            height,
        })
    }
}

pub(crate) struct EndPlaybackRequest {
    pub session: SessionId,
}

impl ParseRequest for EndPlaybackRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            session: playback_headers::session(input)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clear_key_request_yields_its_key_ids() {
        let ids = clear_key_ids(br#"{"kids":["AAAAAAAAAAAAAAAAAAAAAQ"],"type":"temporary"}"#);
        let mut kid = [0; 16];
        kid[15] = 1;
        assert_eq!(ids.unwrap(), [kid]);
    }

    #[test]
    fn malformed_clear_key_request_is_rejected() {
        let many = format!(
            r#"{{"kids":[{}]}}"#,
            vec![r#""AAAAAAAAAAAAAAAAAAAAAQ""#; 65].join(",")
        );
        for bad in [
            "",
            "{}",
            "[]",
            r#"{"kids":[]}"#,
            r#"{"kids":"AAAAAAAAAAAAAAAAAAAAAQ"}"#,
            r#"{"kids":["AAAAAAAAAAAAAAAAAAAAAQ=="]}"#,
            r#"{"kids":["AAAA"]}"#,
            r#"{"kids":[1]}"#,
            r#"{"kids":["AAAAAAAAAAAAAAAAAAAAAQ"],"kids":[]}"#,
            &many,
        ] {
            assert!(clear_key_ids(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
