//! Why playback is refused: situations that the interface has words for.

use crate::store::StoreError;
use crate::types::{AssetId, Drm, LimitReached, SessionId, UnixSeconds};

use super::model::{Device, EndReason};

/// A session that stands in the way of a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockingSession {
    /// Its id, with which the user may end it.
    pub session: SessionId,
    /// What it plays.
    pub asset: AssetId,
    /// On what.
    pub device: Device,
    /// When it began.
    pub since: UnixSeconds,
}

/// Why a preflight, heartbeat, license or change of a session is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaybackError {
    /// The DRM system and the protocol or the asset do not go together here.
    #[error("{0}")]
    DrmProtocolMismatch(&'static str),
    /// The entitlement is bad, expired, or for another user, asset, partner or device: alike.
    #[error("the entitlement is not valid here")]
    EntitlementInvalid,
    /// The user's account was erased while the request ran.
    #[error("the user's account is gone")]
    UserGone,
    /// The entitlement does not reach to this country.
    #[error("not from this country")]
    GeoBlocked,
    /// The user has as many devices as may be.
    #[error("no further device may be registered")]
    DeviceLimitReached,
    /// The user has as many streams as may be; the sessions in the way, oldest first.
    #[error("no further stream may run")]
    StreamLimitReached(Vec<BlockingSession>),
    /// The catalogue has no such asset any more.
    #[error("no such asset")]
    AssetNotFound,
    /// The asset has no address for the protocol.
    #[error("the asset has no playlist for this protocol")]
    ProtocolNotAvailable,
    /// The asset has no address at all.
    #[error("the catalogue has no playlist for this asset, so no protocol can play it")]
    NoPlaylist,
    /// Nobody would give out licenses of this system.
    #[error(
        "the asset is encrypted, and no license server is configured for {drm}: set `license.{drm}.url`",
        drm = .0.as_str()
    )]
    NoLicenseServer(Drm),
    /// No such session.
    #[error("no such session")]
    SessionNotFound,
    /// The session has ended.
    #[error("the session has ended")]
    SessionEnded(EndReason),
    /// The entitlement has expired while playing.
    #[error("the entitlement has expired")]
    EntitlementExpired,
    /// The session is another user's, device's or asset's.
    #[error("the session is another's")]
    SessionMismatch,
    /// The session sends more beats than its rate allows.
    #[error("too many heartbeats: {0}")]
    TooManyBeats(LimitReached),
    /// The program at the playing position may not be watched live.
    #[error("the program at the playing position has no live rights")]
    NoLiveRights {
        /// Whether other programs of the livestream may be.
        by_default: bool,
    },
    /// The playing position is behind the live point, and no right reaches back to it.
    #[error(
        "the playing position is behind the live point, and neither start-over, rewind nor catch-up reaches back to it"
    )]
    NotAvailable,
    /// The program at the playing position needs a PIN that this session has not given.
    #[error("a PIN is needed")]
    PinCodeRequired,
    /// Not the DRM system of the preflight.
    #[error("the session was started with another system")]
    DrmMismatch,
    /// A key that is not the asset's.
    #[error("a key id is not the asset's")]
    KeyNotAllowed,
    /// No such device.
    #[error("no such device")]
    DeviceNotFound,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
