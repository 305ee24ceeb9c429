//! What playback asks of the other domains. A trait, so that its rules are tested against a world
//! of a few lines, and so that nothing here can reach further than this.

use crate::domain::entitlement::PositionRights;
use crate::store::{StoreError, Txn};
use crate::types::{
    AssetId, BroadcastId, Country, LivestreamId, PartnerId, Protocol, UnixSeconds, UserId,
};

/// Who plays: what the proofs of a request say about the user.
#[derive(Clone, Debug)]
pub struct Viewer {
    /// The user.
    pub user: UserId,
    /// The user's partner.
    pub partner: PartnerId,
    /// The country of the request, as far as it is known.
    pub country: Option<Country>,
    /// A tag switches the country check off.
    pub any_country: bool,
    /// A tag switches the device check off.
    pub any_device: bool,
}

/// What a livestream shows at a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The program; nothing in a gap of the guide.
    pub program: Option<Program>,
    /// The rights in it.
    pub rights: PositionRights,
}

/// A program, as far as playback must know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The broadcast.
    pub id: BroadcastId,
    /// The first second it is on.
    pub start: UnixSeconds,
    /// From what age on it may be seen without a PIN.
    pub pg_age: Option<u8>,
}

/// What a preflight needs of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Playable {
    /// Whether it is encrypted.
    pub encrypted: bool,
    /// Its own stream limit.
    pub streams: Option<u32>,
    /// Its address for the protocol: `origin:` or `loop:` and a path, or an address template.
    pub address: Option<String>,
}

/// How an asset may be delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Playlists {
    /// Whether it is encrypted.
    pub encrypted: bool,
    /// The protocols, without the `s` of those that ask for https.
    pub protocols: Vec<Protocol>,
}

/// The other domains, as playback sees them. Every answer but [`PlaybackContext::exists`] comes from memory.
pub trait PlaybackContext: Send + Sync + 'static {
    /// What a livestream shows at `at`; nothing if the catalogue does not know the livestream.
    fn shown_at(&self, livestream: &LivestreamId, at: UnixSeconds) -> Option<Shown>;

    /// A program by its id, with the rights in it; nothing if the guide does not have it any more.
    fn broadcast(&self, id: &BroadcastId) -> Option<Shown>;

    /// Whether the user has to give a PIN for a program of a channel.
    fn program_needs_pin(
        &self,
        user: &UserId,
        livestream: &LivestreamId,
        program: &Program,
    ) -> bool;

    /// Whether the user has to give a PIN for a video on demand.
    fn vod_needs_pin(&self, user: &UserId, asset: &AssetId) -> bool;

    /// The protocols for which an asset of any kind has a playlist; nothing if there is no such asset.
    fn playlists(&self, asset: &AssetId) -> Option<Playlists>;

    /// What the catalogue says about an asset of any kind, with its address for a protocol.
    fn playable(&self, asset: &AssetId, protocol: Protocol) -> Option<Playable>;

    /// Whether the user still has a right to the asset, whatever the program of the moment is. An
    /// offer may have been taken away since the entitlement was issued.
    fn still_entitled(&self, viewer: &Viewer, asset: &AssetId, now: UnixSeconds) -> bool;

    /// The key ids that the asset lists.
    fn key_ids(&self, asset: &AssetId) -> Vec<[u8; 16]>;

    /// The content key of a key id that the asset lists.
    fn content_key(&self, asset: &AssetId, kid: &[u8; 16]) -> Option<[u8; 16]>;

    /// Whether the user still has an account, within the plan that makes something of theirs.
    ///
    /// # Errors
    /// That the store failed.
    fn exists(&self, txn: &Txn<'_>, user: &UserId) -> Result<bool, StoreError>;
}
