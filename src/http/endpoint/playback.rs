//! Requests of entitlement, preflight, license and heartbeat (interface, parts 4.4 to 4.7).

use bytes::Bytes;

use super::play::{self, DeviceHeaders};
use super::{Input, Payload};
use crate::http::combine::CombineResults;
use crate::http::error::{ApiError, ErrorCode};
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
            play::drm(input),
            play::protocol(input),
            play::entitlement(input),
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
}

impl LicenseRequest {
    pub(super) fn parse(
        system: Drm,
        input: &Input<'_>,
        payload: Payload,
    ) -> Result<Self, ApiError> {
        let (entitlement, session) = (play::entitlement(input), play::session(input)).combine()?;
        Ok(Self {
            system,
            session,
            entitlement,
            challenge: payload.whole()?,
        })
    }
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
            play::drm(input),
            play::protocol(input),
            play::entitlement(input),
            DeviceHeaders::check(input),
            play::numeric(input, headers.timestamp, "Play-Timestamp"),
            play::numeric(input, headers.bitrate, "Play-Bitrate"),
            play::numeric(input, headers.width, "Play-ResolutionWidth"),
            play::numeric(input, headers.height, "Play-ResolutionHeight"),
            play::session(input),
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
            session: play::session(input)?,
        })
    }
}
