//! The interface of playback to the other domains. It is a trait so that the rules can be tested against a
//! small fake, and so that playback can reach nothing else.

use crate::accounts::User;
use crate::entitlement::{self, PositionRights, TAG_ANY_DEVICE};
use playgate_store::Txn;
use playgate_types::{
    AssetId, BroadcastId, Country, LivestreamId, PartnerId, Protocol, UnixSeconds, UserId,
};

#[derive(Clone, Debug)]
pub struct Viewer {
    pub user: UserId,
    pub partner: PartnerId,
    pub country: Option<Country>,
    /// Whether a tag of the user lifts the restriction to countries.
    pub any_country: bool,
    pub any_device: bool,
}

impl Viewer {
    /// `country` is the country of the request, by IP address or by the user's record.
    pub fn new(user: &User, country: Option<Country>) -> Self {
        Self {
            user: user.id,
            partner: user.partner,
            country,
            any_country: entitlement::any_country(user),
            any_device: user.tags.iter().any(|tag| tag == TAG_ANY_DEVICE),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramAtPosition {
    /// `None` in a gap of the schedule.
    pub program: Option<PlayedProgram>,
    pub rights: PositionRights,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlayedProgram {
    pub id: BroadcastId,
    pub start: UnixSeconds,
    pub pg_age: Option<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Playable {
    pub encrypted: bool,
    pub streams: Option<u32>,
    /// `origin:` or `loop:` and a path, or a URL template.
    pub address: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssetDelivery {
    pub encrypted: bool,
    /// Protocols without the `s` of those that require https.
    pub protocols: Vec<Protocol>,
}

/// Every method reads memory only.
pub trait PlaybackContext: Send + Sync + 'static {
    /// `None` if the livestream is not in the catalogue.
    fn program_at(&self, livestream: &LivestreamId, at: UnixSeconds) -> Option<ProgramAtPosition>;

    fn broadcast(&self, id: &BroadcastId) -> Option<ProgramAtPosition>;

    fn program_needs_pin(
        &self,
        user: &UserId,
        livestream: &LivestreamId,
        program: &PlayedProgram,
    ) -> bool;

    fn vod_needs_pin(&self, user: &UserId, asset: &AssetId) -> bool;

    /// The name of the livestream, or the title of the video.
    fn name(&self, asset: &AssetId) -> Option<String>;

    fn playlists(&self, asset: &AssetId) -> Option<AssetDelivery>;

    fn playable(&self, asset: &AssetId, protocol: Protocol) -> Option<Playable>;

    /// Whether an offer of the user includes the asset, whatever the current program is. The offer may have been revoked
    /// since the entitlement was issued.
    fn still_entitled(&self, viewer: &Viewer, asset: &AssetId, now: UnixSeconds) -> bool;

    fn key_ids(&self, asset: &AssetId) -> Vec<[u8; 16]>;

    /// `None` if the asset does not list the key id.
    fn content_key(&self, asset: &AssetId, kid: &[u8; 16]) -> Option<[u8; 16]>;

    /// As seen by a transaction that creates a record of the user.
    fn exists(&self, txn: &Txn<'_>, user: &UserId) -> bool;
}
