//! Records of playback: entitlements, sessions, devices, and how sessions ended.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use playgate_types::shared_text;
use playgate_types::{
    AssetId, BroadcastId, Country, DeviceId, Drm, EntitlementId, LivestreamId, PartnerId, Protocol,
    SessionId, UnixSeconds, UserId,
};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlayedAsset {
    Live {
        livestream: LivestreamId,
        /// Seconds from the live point, 0 or negative.
        offset: i32,
    },
    /// Boxed, since most sessions are live or of a film.
    Catchup(Box<PlayedBroadcast>),
    Vod,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlayedBroadcast {
    pub livestream: LivestreamId,
    pub broadcast: BroadcastId,
    pub start: UnixSeconds,
    pub stop: UnixSeconds,
}

impl PlayedAsset {
    pub fn livestream(&self) -> Option<&LivestreamId> {
        match self {
            Self::Live { livestream, .. } => Some(livestream),
            Self::Catchup(played) => Some(&played.livestream),
            Self::Vod => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entitlement {
    /// For logs: the token itself must not be logged.
    pub id: EntitlementId,
    pub partner: PartnerId,
    pub asset: AssetId,
    pub playing: PlayedAsset,
    pub program: Option<BroadcastId>,
    /// The program, or asset without programs, that a PIN was entered for before a session existed. The
    /// first preflight consumes it.
    pub unlock: Option<AssetId>,
    /// Countries in which it may be used; empty means everywhere.
    pub countries: Vec<Country>,
    /// Time of issue, in token time.
    pub issued: UnixSeconds,
    /// The first second at which it is no longer valid, in token time.
    pub expires: UnixSeconds,
    /// The device of the first preflight; no other may use the token.
    pub device: Option<DeviceId>,
}

impl Entitlement {
    /// `at` is in token time.
    pub const fn holds(&self, at: UnixSeconds) -> bool {
        at.0 < self.expires.0
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    pub id: DeviceId,
    #[serde(deserialize_with = "shared_text::deserialize")]
    pub platform: Arc<str>,
    #[serde(deserialize_with = "shared_text::deserialize")]
    pub kind: Arc<str>,
    #[serde(deserialize_with = "shared_text::deserialize")]
    pub model: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registered {
    pub device: Device,
    pub since: UnixSeconds,
    pub latest: UnixSeconds,
}

/// The two times of a request. They differ only for a lab partner whose clock was moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestTime {
    /// Schedule, rights and playing positions follow it.
    pub partner: UnixSeconds,
    /// Tokens and sessions expire by it, and records have it.
    pub server: UnixSeconds,
}

impl From<UnixSeconds> for RequestTime {
    fn from(now: UnixSeconds) -> Self {
        Self {
            partner: now,
            server: now,
        }
    }
}

/// What a session is about; it never changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionStart {
    pub partner: PartnerId,
    pub asset: AssetId,
    pub playing: PlayedAsset,
    pub device: Device,
    pub drm: Drm,
    pub protocol: Protocol,
    pub since: UnixSeconds,
}

/// A session in the store. Its heartbeats are kept in memory only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredSession {
    pub start: SessionStart,
    pub program: Option<BroadcastId>,
    pub unlocks: Vec<AssetId>,
    pub seen: UnixSeconds,
}

/// Per session; further ones displace the oldest. No day has more programs that need a PIN.
pub(crate) const UNLOCKS_MAX: usize = 48;

/// Beyond [`UNLOCKS_MAX`] the oldest are dropped.
pub(crate) fn add_unlock(unlocks: &mut Vec<AssetId>, unlock: AssetId) {
    unlocks.retain(|other| *other != unlock);
    unlocks.push(unlock);
    let forgotten = unlocks.len().saturating_sub(UNLOCKS_MAX);
    unlocks.drain(..forgotten);
}

/// Records store the index of the variant: new variants go to the end.
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
pub(crate) struct EndedSession {
    pub reason: EndReason,
    pub at: UnixSeconds,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionView {
    pub id: SessionId,
    pub user: UserId,
    pub partner: PartnerId,
    pub asset: AssetId,
    pub program: Option<BroadcastId>,
    pub device: Device,
    pub drm: Drm,
    pub protocol: Protocol,
    pub since: UnixSeconds,
    pub seen: UnixSeconds,
    /// Bitrate at the last heartbeat, in bits per second.
    pub bitrate: u64,
    pub resolution: (u32, u32),
}
