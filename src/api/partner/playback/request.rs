//! Requests of entitlement, preflight, license and heartbeat. `docs/interface.md` describes the
//! routes.

use std::borrow::Cow;

use bytes::Bytes;
use data_encoding::BASE64URL_NOPAD;
use serde::Deserialize;

use playgate_domain::playback::license_challenge;
use playgate_http::errors::api_error::{ApiError, CombineResults, ErrorCode};
use playgate_http::request::headers::SingleHeader;
use playgate_http::request::object::Object;
use playgate_http::request::payload::Payload;
use playgate_http::routing::endpoint::{Input, ParseRequest};
use playgate_types::decimal::whole_part;
use playgate_types::text::check_visible;
use playgate_types::{
    AssetId, DeviceId, Drm, LiveOffset, Malformed, Pin, Protocol, SessionId, TokenHash, TokenKind,
    device_text,
};

pub(crate) enum PinEntry {
    Absent,
    /// A member of this name was sent in its place.
    Misnamed(&'static str),
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
            None => misnamed_pin(&body),
            Some("") => PinEntry::Absent,
            // Not an error yet: a PIN that is not needed is ignored, whatever it contains.
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

fn misnamed_pin(body: &Object) -> PinEntry {
    let names = ["pincode", "pin", "pin_code", "PinCode", "PIN"];
    let sent = names.into_iter().find(|name| body.has(name));
    sent.map_or(PinEntry::Absent, PinEntry::Misnamed)
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
            drm(input),
            protocol(input),
            entitlement(input),
            DeviceHeaders::read(input),
        )
            .combine()?;
        // The text as it was sent: the answer repeats it in the headers that the player has to send.
        let token = input.heads.play.entitlement.ascii().unwrap_or_default();
        // Checked last, so that a client that misses several headers gets all of them reported together.
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
        let (entitlement, session, kids) = (
            entitlement(input),
            session(input),
            key_ids(system, &challenge),
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

/// A license request at the address that authorizes it. The session knows the DRM system.
pub(crate) struct SignedLicenseRequest {
    pub token: String,
    pub challenge: Bytes,
}

impl ParseRequest for SignedLicenseRequest {
    fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            token: input.text("token")?.into_owned(),
            challenge: payload.whole()?,
        })
    }
}

/// The key ids that a challenge names, as far as they can be read.
pub(crate) fn key_ids(system: Drm, challenge: &[u8]) -> Result<Vec<[u8; 16]>, ApiError> {
    match system {
        Drm::Clearkey => clear_key_ids(challenge),
        Drm::Widevine | Drm::Playready | Drm::Fairplay | Drm::None => {
            license_challenge::key_ids(system, challenge)
                .map_err(|why| ApiError::malformed(format!("the challenge {}", why.0)))
        }
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
    // Borrowed from the challenge: a license request is parsed while a viewer waits for the picture.
    let request: ClearKeyRequest<'_> = serde_json::from_slice(challenge)
        .map_err(|_| ApiError::field("kids", "must be a list of key ids"))?;
    if request.kids.is_empty() || request.kids.len() > KIDS_MAX {
        return Err(ApiError::field("kids", "must have 1 to 64 key ids"));
    }
    let mut kids = Vec::with_capacity(request.kids.len());
    // All wrong ids are reported together.
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
            drm(input),
            protocol(input),
            entitlement(input),
            DeviceHeaders::check(input),
            numeric(input, headers.timestamp, "Play-Timestamp"),
            numeric(input, headers.bitrate, "Play-Bitrate"),
            numeric(input, headers.width, "Play-ResolutionWidth"),
            numeric(input, headers.height, "Play-ResolutionHeight"),
            session(input),
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
            session: session(input)?,
        })
    }
}

/// The device of a preflight. Platform, type and model may be any visible text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeviceHeaders {
    pub id: DeviceId,
    pub platform: String,
    pub kind: String,
    pub model: String,
}

impl DeviceHeaders {
    pub(crate) fn read(input: &Input<'_>) -> Result<Self, ApiError> {
        let (platform, kind, model, id) =
            (platform(input), kind(input), model(input), device_id(input)).combine()?;
        Ok(Self {
            platform: platform.into_owned(),
            kind: kind.into_owned(),
            model: model.into_owned(),
            id,
        })
    }

    pub(crate) fn check(input: &Input<'_>) -> Result<DeviceId, ApiError> {
        // Checked and dropped: the session knows its device.
        let (_, _, _, id) =
            (platform(input), kind(input), model(input), device_id(input)).combine()?;
        Ok(id)
    }
}

fn label<'a>(
    input: &Input<'a>,
    slot: SingleHeader<'a>,
    name: &str,
) -> Result<Cow<'a, str>, ApiError> {
    // Operators and viewers see these values in lists of sessions and devices.
    Ok(device_text::label_of(
        slot.required_bytes(input.names, name)?,
    ))
}

fn platform<'a>(input: &Input<'a>) -> Result<Cow<'a, str>, ApiError> {
    label(
        input,
        input.heads.play.device_platform,
        "Play-DevicePlatform",
    )
}

fn kind<'a>(input: &Input<'a>) -> Result<Cow<'a, str>, ApiError> {
    label(input, input.heads.play.device_type, "Play-DeviceType")
}

fn model<'a>(input: &Input<'a>) -> Result<Cow<'a, str>, ApiError> {
    label(input, input.heads.play.device_model, "Play-DeviceModel")
}

fn device_id(input: &Input<'_>) -> Result<DeviceId, ApiError> {
    const NAME: &str = "Play-DeviceId";
    let bytes = input
        .heads
        .play
        .device_id
        .required_bytes(input.names, NAME)?;
    let text = device_text::text_of(bytes);
    let id = check_visible(&text).and_then(|()| DeviceId::parse(&text));
    id.map_err(|why| ApiError::field(input.names.full(NAME), why.0))
}

pub(crate) fn drm(input: &Input<'_>) -> Result<Drm, ApiError> {
    parsed(input, input.heads.play.drm, "Play-DRM", |text| {
        let expected = "must be widevine, fairplay, playready, clearkey or none";
        Drm::parse(text).ok_or(Malformed(expected))
    })
}

pub(crate) fn protocol(input: &Input<'_>) -> Result<Protocol, ApiError> {
    parsed(input, input.heads.play.protocol, "Play-Protocol", |text| {
        let expected = "must be dash, dashs, hls, hls-audio, sstr or sstrs";
        Protocol::parse(text).ok_or(Malformed(expected))
    })
}

/// Parses a required header. A mistake names the header in full.
fn parsed<'a, T>(
    input: &Input<'a>,
    slot: SingleHeader<'a>,
    name: &str,
    parse: impl FnOnce(&'a str) -> Result<T, Malformed>,
) -> Result<T, ApiError> {
    let text = slot.required(input.names, name)?;
    parse(text).map_err(|why| ApiError::field(input.names.full(name), why.0))
}

fn not_empty(text: &str) -> Result<&str, Malformed> {
    (!text.is_empty())
        .then_some(text)
        .ok_or(Malformed("is empty"))
}

/// Returns the hash of the entitlement token, or `None` if the text cannot be a token. `None` is refused like an
/// unknown token.
pub(crate) fn entitlement(input: &Input<'_>) -> Result<Option<TokenHash>, ApiError> {
    let text = parsed(
        input,
        input.heads.play.entitlement,
        "Play-EntitlementId",
        not_empty,
    )?;
    Ok(TokenHash::hash_presented(TokenKind::Entitlement, text))
}

pub(crate) fn session(input: &Input<'_>) -> Result<SessionId, ApiError> {
    let text = parsed(input, input.heads.play.session, "Play-Session", not_empty)?;
    // Ids are opaque to clients: malformed text is an unknown id.
    SessionId::parse(text)
        .map_err(|_| ApiError::new(ErrorCode::SessionNotFound, "there is no such session"))
}

pub(crate) fn numeric(
    input: &Input<'_>,
    slot: SingleHeader<'_>,
    name: &str,
) -> Result<i64, ApiError> {
    parsed(input, slot, name, whole_part)
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
