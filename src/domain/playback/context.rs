//! The interface of playback to the other domains. It is a trait so that the rules can be tested against a
//! small fake, and so that playback can reach nothing else.

use crate::domain::entitlement::PositionRights;
use crate::store::{StoreError, Txn};
use crate::types::{
    AssetId, BroadcastId, Country, LivestreamId, PartnerId, Protocol, UnixSeconds, UserId,
};

/// The user who plays, as the credentials of a request identify them.
#[derive(Clone, Debug)]
pub struct Viewer {
    pub user: UserId,
    pub partner: PartnerId,
    /// The country of the request, if known.
    pub country: Option<Country>,
    /// Whether a tag of the user disables the country check.
    pub any_country: bool,
    /// Whether a tag of the user disables the device check.
    pub any_device: bool,
}

/// What a livestream shows at a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// `None` in a gap of the schedule.
    pub program: Option<Program>,
    /// The rights at the position.
    pub rights: PositionRights,
}

/// The part of a program that playback needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub id: BroadcastId,
    /// The first second on air.
    pub start: UnixSeconds,
    /// Minimum age to watch without a PIN.
    pub pg_age: Option<u8>,
}

/// The catalogue data that a preflight needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Playable {
    pub encrypted: bool,
    /// The asset's own stream limit.
    pub streams: Option<u32>,
    /// The playlist location for the protocol: `origin:` or `loop:` and a path, or a URL template.
    pub address: Option<String>,
}

/// How an asset can be delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Playlists {
    pub encrypted: bool,
    /// The protocols, without the `s` of those that require https.
    pub protocols: Vec<Protocol>,
}

/// The other domains as playback sees them. Every method except [`PlaybackContext::exists`] reads memory
/// only.
pub trait PlaybackContext: Send + Sync + 'static {
    /// What a livestream shows at `at`; `None` if the livestream is not in the catalogue.
    fn shown_at(&self, livestream: &LivestreamId, at: UnixSeconds) -> Option<Shown>;

    /// A broadcast and its rights; `None` if the schedule no longer has it.
    fn broadcast(&self, id: &BroadcastId) -> Option<Shown>;

    /// Whether the user must enter a PIN for a program of a channel.
    fn program_needs_pin(
        &self,
        user: &UserId,
        livestream: &LivestreamId,
        program: &Program,
    ) -> bool;

    /// Whether the user must enter a PIN for a video on demand.
    fn vod_needs_pin(&self, user: &UserId, asset: &AssetId) -> bool;

    /// The protocols for which an asset of any kind has a playlist; `None` if the asset does not exist.
    fn playlists(&self, asset: &AssetId) -> Option<Playlists>;

    /// Catalogue data of an asset of any kind, with its playlist location for a protocol.
    fn playable(&self, asset: &AssetId, protocol: Protocol) -> Option<Playable>;

    /// Whether the user still has a right to the asset, whatever the current program is. An offer may have
    /// been revoked since the entitlement was issued.
    fn still_entitled(&self, viewer: &Viewer, asset: &AssetId, now: UnixSeconds) -> bool;

    fn key_ids(&self, asset: &AssetId) -> Vec<[u8; 16]>;

    /// The content key of a key id that the asset lists.
    fn content_key(&self, asset: &AssetId, kid: &[u8; 16]) -> Option<[u8; 16]>;

    /// Whether the user account still exists, as seen by a transaction that creates a record of that user.
    fn exists(&self, txn: &Txn<'_>, user: &UserId) -> Result<bool, StoreError>;
}
