//! What playback keeps: entitlements, sessions, devices, and how sessions ended.

use serde::{Deserialize, Serialize};

use crate::types::{
    AssetId, BroadcastId, Country, DeviceId, Drm, EntitlementId, LivestreamId, PartnerId, Protocol,
    SessionId, UnixSeconds, UserId,
};

/// What an asset id came out as when the entitlement was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Playing {
    /// A livestream, at the live point or behind it.
    Live {
        /// The channel.
        livestream: LivestreamId,
        /// Seconds from the live point, 0 or negative.
        offset: i32,
    },
    /// A finished broadcast.
    Catchup {
        /// The channel that showed it.
        livestream: LivestreamId,
        /// The broadcast.
        broadcast: BroadcastId,
        /// When it began.
        start: UnixSeconds,
        /// When it ended.
        stop: UnixSeconds,
    },
    /// A video on demand.
    Vod,
}

impl Playing {
    /// The channel, if there is one.
    #[must_use]
    pub const fn livestream(&self) -> Option<&LivestreamId> {
        match self {
            Self::Live { livestream, .. } | Self::Catchup { livestream, .. } => Some(livestream),
            Self::Vod => None,
        }
    }
}

/// The record behind an entitlement token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entitlement {
    /// Names the entitlement in logs, where the token must not stand.
    pub id: EntitlementId,
    /// The partner of the user.
    pub partner: PartnerId,
    /// What it is good for.
    pub asset: AssetId,
    /// What the asset is.
    pub playing: Playing,
    /// The program at the playing position when it was issued.
    pub program: Option<BroadcastId>,
    /// The program, or asset without programs, that a PIN was given for before there was a session.
    /// The first preflight takes it along; it is never used twice.
    pub unlock: Option<AssetId>,
    /// Where it may be used; empty means everywhere.
    pub countries: Vec<Country>,
    /// When it was issued, in token time.
    pub issued: UnixSeconds,
    /// From when on it is worthless.
    pub expires: UnixSeconds,
    /// The device of its first preflight; no other may use it.
    pub device: Option<DeviceId>,
}

impl Entitlement {
    /// Whether it is still good at an instant of token time.
    #[must_use]
    pub const fn holds(&self, at: UnixSeconds) -> bool {
        at.0 < self.expires.0
    }
}

/// A device as its preflight headers describe it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// What counts as one device.
    pub id: DeviceId,
    /// `Service-Play-DevicePlatform`.
    pub platform: String,
    /// `Service-Play-DeviceType`.
    pub kind: String,
    /// `Service-Play-DeviceModel`.
    pub model: String,
}

/// A registered device of a user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registered {
    /// What it says of itself.
    pub device: Device,
    /// Its first start.
    pub since: UnixSeconds,
    /// Its latest start.
    pub latest: UnixSeconds,
}

/// A session that has not ended, as it is stored. Beats are counted in memory alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredSession {
    /// The partner of the user.
    pub partner: PartnerId,
    /// What is played.
    pub asset: AssetId,
    /// What the asset is.
    pub playing: Playing,
    /// The device, and so the stream.
    pub device: Device,
    /// The system of the preflight.
    pub drm: Drm,
    /// The protocol of the preflight.
    pub protocol: Protocol,
    /// When it began.
    pub since: UnixSeconds,
    /// The program of the latest entitlement, for operators.
    pub program: Option<BroadcastId>,
    /// The programs that a PIN was given for in this session, oldest first.
    pub unlocks: Vec<AssetId>,
    /// The last beat that was checkpointed.
    pub seen: UnixSeconds,
}

/// Unlocks that one session keeps. A session that met more PIN programs than this forgets the
/// oldest: a day has no more of them.
pub const UNLOCKS_MAX: usize = 48;

/// Adds an unlock as the latest; beyond [`UNLOCKS_MAX`] the oldest go.
pub fn add_unlock(unlocks: &mut Vec<AssetId>, unlock: AssetId) {
    unlocks.retain(|other| *other != unlock);
    unlocks.push(unlock);
    let forgotten = unlocks.len().saturating_sub(UNLOCKS_MAX);
    unlocks.drain(..forgotten);
}

/// How a session ended. Records hold the number of the variant: new ones go to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndReason {
    /// The player stopped it.
    Stopped,
    /// No beat came for too long, and no slot was free when one came.
    Expired,
    /// Another device took the slot.
    Displaced,
    /// The same device started again.
    Replaced,
    /// The user, an operator or a new password stopped it, or the right to it was taken away.
    Revoked,
    /// Its user logged out.
    SignedOut,
    /// Its user's account was erased.
    Erased,
}

impl EndReason {
    /// The word that clients get.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Expired => "expired",
            Self::Displaced | Self::Replaced => "displaced",
            Self::Revoked => "revoked",
            Self::SignedOut => "signed_out",
            Self::Erased => "erased",
        }
    }
}

/// A session that has ended, kept for a while so that its player learns why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// How it ended.
    pub reason: EndReason,
    /// When.
    pub at: UnixSeconds,
}

/// A running session as users and operators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionView {
    /// Its id.
    pub id: SessionId,
    /// Whose it is.
    pub user: UserId,
    /// The partner of the user.
    pub partner: PartnerId,
    /// What is played.
    pub asset: AssetId,
    /// The program of the latest entitlement.
    pub program: Option<BroadcastId>,
    /// On what.
    pub device: Device,
    /// The system of the preflight.
    pub drm: Drm,
    /// The protocol of the preflight.
    pub protocol: Protocol,
    /// When it began.
    pub since: UnixSeconds,
    /// Its last beat.
    pub seen: UnixSeconds,
    /// The bitrate of the last beat, in bits per second.
    pub bitrate: u64,
    /// The picture of the last beat, in pixels.
    pub resolution: (u32, u32),
}
