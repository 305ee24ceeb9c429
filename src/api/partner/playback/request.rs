//! Requests of entitlement, preflight, license and heartbeat. `docs/interface.md` describes the
//! routes.

use std::borrow::Cow;

use playgate_domain::playback::Device;
use playgate_http::request::headers::SingleHeader;
use playgate_http::{ApiError, CombineResults, ErrorCode, Input, Object, ParseRequest, Payload};
use playgate_types::decimal::whole_part;
use playgate_types::shared_text::shared_text;
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
    pub device: Device,
}

impl ParseRequest for PreflightRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let (asset, drm, protocol, entitlement, device) = (
            input.parsed("assetId", AssetId::parse),
            drm(input),
            protocol(input),
            entitlement(input),
            device(input),
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
            device_of_session(input),
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

/// Reads the device of a preflight. Platform, type and model may be any visible text.
fn device(input: &Input<'_>) -> Result<Device, ApiError> {
    let (platform, kind, model, id) =
        (platform(input), kind(input), model(input), device_id(input)).combine()?;
    Ok(Device {
        platform: shared_text(&platform),
        kind: shared_text(&kind),
        model: shared_text(&model),
        id,
    })
}

/// Checks the same headers in a heartbeat, and returns only the id: the session has the rest from its preflight.
fn device_of_session(input: &Input<'_>) -> Result<DeviceId, ApiError> {
    let (_, _, _, id) = (platform(input), kind(input), model(input), device_id(input)).combine()?;
    Ok(id)
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
