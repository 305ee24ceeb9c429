//! Requests of entitlement, preflight, license and heartbeat (interface, parts 4.4 to 4.7).

use std::borrow::Cow;

use bytes::Bytes;
use data_encoding::BASE64URL_NOPAD;
use serde::Deserialize;

use super::playback_headers::{self, DeviceHeaders};
use super::{Input, Payload};
use crate::domain::playback::license_challenge;
use crate::http::combine::CombineResults;
use crate::http::error::{ApiError, ErrorCode};
use crate::http::strict_json::Object;
use crate::types::{AssetId, DeviceId, Drm, LiveOffset, Pin, Protocol, SessionId, TokenHash};

/// The PIN that the viewer entered.
pub enum PinEntry {
    /// None.
    Absent,
    /// Something that is no PIN: as wrong as a wrong one, where one is needed.
    Unreadable,
    /// A PIN.
    Given(Pin),
}

/// POST entitlement.
pub struct EntitlementRequest {
    /// A livestream, a broadcast or a video on demand.
    pub asset: AssetId,
    /// How far back on a livestream.
    pub offset: LiveOffset,
    /// The PIN that the viewer entered. Where none is needed it is ignored, whatever it is.
    pub pin: PinEntry,
    /// The running player session. One that is none of ours is as good as none.
    pub session: Option<SessionId>,
}

impl EntitlementRequest {
    pub(super) fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        let pin = body.text("pinCode").map(|pin| match pin {
            None | Some("") => PinEntry::Absent,
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
            session: session.and_then(|text| SessionId::parse(text).ok()),
        })
    }
}

/// POST preflight.
pub struct PreflightRequest {
    /// What is to be played.
    pub asset: AssetId,
    /// The DRM system.
    pub drm: Drm,
    /// The protocol; offered with the system.
    pub protocol: Protocol,
    /// What the Entitlement Token is stored under; `None` for a text that is none.
    pub entitlement: Option<TokenHash>,
    /// The token as it was sent: the answer hands it back among the headers.
    pub token: String,
    /// The device.
    pub device: DeviceHeaders,
}

impl PreflightRequest {
    pub(super) fn parse(input: &Input<'_>) -> Result<Self, ApiError> {
        let (asset, drm, protocol, entitlement, device) = (
            input.parsed("assetId", AssetId::parse),
            playback_headers::drm(input),
            playback_headers::protocol(input),
            playback_headers::entitlement(input),
            DeviceHeaders::read(input),
        )
            .combine()?;
        let token = input.heads.play.entitlement.ascii().unwrap_or_default();
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

/// POST license.
pub struct LicenseRequest {
    /// The DRM system of the address.
    pub system: Drm,
    /// The playback session.
    pub session: SessionId,
    /// What the Entitlement Token is stored under; `None` for a text that is none.
    pub entitlement: Option<TokenHash>,
    /// The challenge, unchanged.
    pub challenge: Bytes,
    /// The key ids that the challenge asks for, where they can be read.
    pub kids: Vec<[u8; 16]>,
}

impl LicenseRequest {
    pub(super) fn parse(
        system: Drm,
        input: &Input<'_>,
        payload: Payload,
    ) -> Result<Self, ApiError> {
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

/// Key ids that one Clear Key request may ask for: more than any asset has.
const KIDS_MAX: usize = 64;

/// A license request of Clear Key, as the EME specification writes it.
#[derive(Debug, Deserialize)]
struct ClearKeyRequest<'a> {
    #[serde(borrow)]
    kids: Vec<Cow<'a, str>>,
}

/// The key ids of a Clear Key request.
fn clear_key_ids(challenge: &[u8]) -> Result<Vec<[u8; 16]>, ApiError> {
    // The same rules as for every other body: one object, no member twice, bounded depth.
    Object::read(challenge).check()?;
    let request: ClearKeyRequest<'_> = serde_json::from_slice(challenge)
        .map_err(|_| ApiError::field("kids", "must be a list of key ids"))?;
    if request.kids.is_empty() || request.kids.len() > KIDS_MAX {
        return Err(ApiError::field("kids", "must have 1 to 64 key ids"));
    }
    let mut kids = Vec::with_capacity(request.kids.len());
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

/// POST heartbeat.
pub struct HeartbeatRequest {
    /// The playback session.
    pub session: SessionId,
    /// What the Entitlement Token is stored under; `None` for a text that is none.
    pub entitlement: Option<TokenHash>,
    /// The DRM system.
    pub drm: Drm,
    /// The protocol.
    pub protocol: Protocol,
    /// The device.
    pub device: DeviceId,
    /// The media position as sent: Unix seconds or milliseconds, or seconds from the start.
    pub timestamp: i64,
    /// Bits per second, as sent.
    pub bitrate: i64,
    /// Pixels, as sent.
    pub width: i64,
    /// Pixels, as sent.
    pub height: i64,
}

impl HeartbeatRequest {
    pub(super) fn parse(input: &Input<'_>) -> Result<Self, ApiError> {
        let headers = &input.heads.play;
        let (drm, protocol, entitlement, device, timestamp, bitrate, width, height, session) = (
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
            drm,
            protocol,
            device,
            timestamp,
            bitrate,
            width,
            height,
        })
    }
}

/// DELETE heartbeat.
pub struct EndPlaybackRequest {
    /// The playback session.
    pub session: SessionId,
}

impl EndPlaybackRequest {
    pub(super) fn parse(input: &Input<'_>) -> Result<Self, ApiError> {
        Ok(Self {
            session: playback_headers::session(input)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_ids_of_a_clear_key_request_are_read() {
        let ids = clear_key_ids(br#"{"kids":["AAAAAAAAAAAAAAAAAAAAAQ"],"type":"temporary"}"#);
        let mut kid = [0; 16];
        kid[15] = 1;
        assert_eq!(ids.unwrap(), [kid]);
    }

    #[test]
    fn what_is_no_clear_key_request_is_refused() {
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
