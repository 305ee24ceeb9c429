//! Errors of playback. Each maps to an error code of the interface.

use crate::entitlement::Withheld;
use playgate_store::StoreError;
use playgate_types::{AssetId, Drm, LimitReached, SessionId, UnixSeconds};

use super::model::{Device, EndReason};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockingSession {
    /// The user can end the session with it.
    pub session: SessionId,
    pub asset: AssetId,
    pub device: Device,
    pub since: UnixSeconds,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaybackError {
    /// The DRM system does not go with the protocol or the asset.
    #[error("{0}")]
    DrmProtocolMismatch(&'static str),
    /// Unknown, or of another user, asset, partner or device; at preflight and license also expired. Clients cannot tell
    /// these apart. A heartbeat reports an expired one separately.
    #[error("the entitlement is not valid here")]
    EntitlementInvalid,
    #[error("the user account no longer exists")]
    UserGone,
    #[error("the entitlement does not cover this country")]
    GeoBlocked,
    #[error("the device limit is reached")]
    DeviceLimitReached,
    /// The sessions that hold slots, oldest first.
    #[error("the stream limit is reached")]
    StreamLimitReached(Vec<BlockingSession>),
    #[error("no asset has this id")]
    AssetNotFound,
    #[error("the asset has no playlist for this protocol")]
    ProtocolNotAvailable,
    #[error("the catalogue has no playlist for this asset, so no protocol can play it")]
    NoPlaylist,
    #[error(
        "the asset is encrypted, and no license server is configured for {drm}: set `license.{drm}.url`",
        drm = .0.as_str()
    )]
    NoLicenseServer(Drm),
    #[error("no playback session has this id")]
    SessionNotFound,
    #[error("the session has ended")]
    SessionEnded(EndReason),
    #[error("the entitlement has expired")]
    EntitlementExpired,
    #[error("the session belongs to another user, device or asset")]
    SessionMismatch,
    #[error("too many heartbeats: {0}")]
    TooManyBeats(LimitReached),
    #[error("the program at the playing position has no live rights")]
    NoLiveRights {
        /// Whether the livestream has live rights by default.
        by_default: bool,
    },
    #[error(
        "the playing position is behind the live point, and neither start-over, rewind nor catch-up reaches back to it"
    )]
    NotAvailable,
    /// The program needs a PIN that was not entered in this session.
    #[error("a PIN is required")]
    PinCodeRequired,
    #[error("the session was started with another DRM system")]
    DrmMismatch,
    #[error("a key id does not belong to the asset")]
    KeyNotAllowed,
    #[error("the user has no device with this id")]
    DeviceNotFound,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl PlaybackError {
    /// Returns the name of the failed check, as decisions show it.
    pub const fn check(&self) -> &'static str {
        match self {
            Self::AssetNotFound => "asset",
            Self::EntitlementInvalid | Self::EntitlementExpired => "entitlement",
            Self::GeoBlocked => "country",
            Self::UserGone => "user",
            Self::DeviceLimitReached | Self::DeviceNotFound => "devices",
            Self::StreamLimitReached(_) => "streams",
            Self::DrmProtocolMismatch(_)
            | Self::ProtocolNotAvailable
            | Self::NoPlaylist
            | Self::NoLicenseServer(_) => "playback",
            Self::SessionNotFound | Self::SessionEnded(_) | Self::SessionMismatch => "session",
            Self::TooManyBeats(_) => "rate",
            Self::NoLiveRights { .. } | Self::NotAvailable => "rights",
            Self::PinCodeRequired => "pin",
            Self::DrmMismatch | Self::KeyNotAllowed => "license",
            Self::Store(_) => "store",
        }
    }
}

impl From<Withheld> for PlaybackError {
    fn from(withheld: Withheld) -> Self {
        match withheld {
            Withheld::NoLiveRights { by_default } => Self::NoLiveRights { by_default },
            Withheld::NotAvailable => Self::NotAvailable,
        }
    }
}
