//! Records of playback: entitlements, sessions, devices, and how sessions ended.

use serde::{Deserialize, Serialize};

use crate::types::{
    AssetId, BroadcastId, Country, DeviceId, Drm, EntitlementId, LivestreamId, PartnerId, Protocol,
    SessionId, UnixSeconds, UserId,
};

/// What the asset id resolved to when the entitlement was requested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Playing {
    /// A livestream, at the live point or behind it.
    Live {
        livestream: LivestreamId,
        /// Seconds from the live point, 0 or negative.
        offset: i32,
    },
    /// A finished broadcast.
    Catchup {
        /// The channel that showed it.
        livestream: LivestreamId,
        broadcast: BroadcastId,
        start: UnixSeconds,
        stop: UnixSeconds,
    },
    /// A video on demand.
    Vod,
}

impl Playing {
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
    /// Identifies the entitlement in logs: the token itself must not be logged.
    pub id: EntitlementId,
    pub partner: PartnerId,
    pub asset: AssetId,
    pub playing: Playing,
    /// The program at the playing position at issue time.
    pub program: Option<BroadcastId>,
    /// The program, or asset without programs, that a PIN was entered for before a session existed. The first
    /// preflight consumes it.
    pub unlock: Option<AssetId>,
    /// Countries where it may be used; empty means everywhere.
    pub countries: Vec<Country>,
    /// Issue time, in token time.
    pub issued: UnixSeconds,
    /// First second at which it is no longer valid, in token time.
    pub expires: UnixSeconds,
    /// The device of its first preflight; no other device may use it.
    pub device: Option<DeviceId>,
}

impl Entitlement {
    /// Whether it has not expired at `at` (token time).
    #[must_use]
    pub const fn holds(&self, at: UnixSeconds) -> bool {
        at.0 < self.expires.0
    }
}

/// A device as its preflight headers describe it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Identity of the device: counts against the device limit.
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
    pub device: Device,
    pub since: UnixSeconds,
    pub latest: UnixSeconds,
}

/// The stored part of a session that has not ended. Heartbeats are counted in memory only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredSession {
    pub partner: PartnerId,
    pub asset: AssetId,
    pub playing: Playing,
    /// The device that plays; one device is one stream.
    pub device: Device,
    pub drm: Drm,
    pub protocol: Protocol,
    pub since: UnixSeconds,
    /// The program of the latest entitlement, for operators.
    pub program: Option<BroadcastId>,
    /// The programs that a PIN was entered for in this session, oldest first.
    pub unlocks: Vec<AssetId>,
    /// The last checkpointed heartbeat.
    pub seen: UnixSeconds,
}

/// Unlocks kept per session; further ones displace the oldest. No day has more programs that need a PIN.
pub(crate) const UNLOCKS_MAX: usize = 48;

/// Adds an unlock as the newest; beyond [`UNLOCKS_MAX`] the oldest are dropped.
pub(crate) fn add_unlock(unlocks: &mut Vec<AssetId>, unlock: AssetId) {
    unlocks.retain(|other| *other != unlock);
    unlocks.push(unlock);
    let forgotten = unlocks.len().saturating_sub(UNLOCKS_MAX);
    unlocks.drain(..forgotten);
}

/// How a session ended. Records store the index of the variant: new variants go to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndReason {
    Stopped,
    /// Heartbeats stopped for too long, or no slot was free when they resumed.
    Expired,
    Displaced,
    /// The same device started again.
    Replaced,
    /// The user, an operator or a password reset ended it, or the right to it was revoked.
    Revoked,
    SignedOut,
    Erased,
}

impl EndReason {
    /// The value of the wire format.
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

/// A session that has ended, kept for a while so that its player learns the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub reason: EndReason,
    pub at: UnixSeconds,
}

/// A running session as users and operators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionView {
    pub id: SessionId,
    pub user: UserId,
    pub partner: PartnerId,
    pub asset: AssetId,
    /// The program of the latest entitlement.
    pub program: Option<BroadcastId>,
    pub device: Device,
    pub drm: Drm,
    pub protocol: Protocol,
    pub since: UnixSeconds,
    pub seen: UnixSeconds,
    /// Bitrate at the last heartbeat, in bits per second.
    pub bitrate: u64,
    /// Width and height at the last heartbeat, in pixels.
    pub resolution: (u32, u32),
}
