//! Implements [`PlaybackContext`] for the playback domain, from memory. It joins the other domains and makes no
//! decisions.

use std::sync::Arc;

use super::accounts::Accounts;
use super::catalog::{Asset, Catalog, KeyId, Livestream};
use super::entitlement::{self, EntitlementService, PositionRights, Subject};
use super::playback::context::{AssetDelivery, Playable, PlayedProgram, ProgramAtPosition};
use super::playback::{PlaybackContext, Viewer};
use super::schedule::{self, Schedule};
use playgate_store::Txn;
use playgate_types::{AssetId, BroadcastId, LivestreamId, Protocol, UnixSeconds, UserId};

pub struct ServiceContext {
    accounts: Accounts,
    catalog: Catalog,
    schedule: Arc<Schedule>,
    rights: EntitlementService,
    pins: entitlement::EntitlementSettings,
}

enum PlayableItem {
    Livestream(Arc<Livestream>),
    Asset(Arc<Asset>),
}

impl PlayableItem {
    fn keys(&self) -> &[KeyId] {
        match self {
            Self::Livestream(livestream) => &livestream.keys,
            Self::Asset(asset) => &asset.keys,
        }
    }
}

impl ServiceContext {
    pub fn new(
        accounts: &Accounts,
        catalog: &Catalog,
        schedule: &Arc<Schedule>,
        rights: &EntitlementService,
        pins: entitlement::EntitlementSettings,
    ) -> Self {
        Self {
            accounts: accounts.clone(),
            catalog: catalog.clone(),
            schedule: Arc::clone(schedule),
            rights: rights.clone(),
            pins,
        }
    }

    /// Returns the catalogue item that is played; a broadcast is played from its livestream.
    fn source(&self, asset: &AssetId) -> Option<PlayableItem> {
        match self.rights.subject(&self.catalog.snapshot(), asset)? {
            Subject::Livestream(found) | Subject::Broadcast(found, _) => {
                Some(PlayableItem::Livestream(found))
            }
            Subject::Asset(found) => Some(PlayableItem::Asset(found)),
        }
    }
}

fn program(found: &schedule::Program) -> Option<PlayedProgram> {
    Some(PlayedProgram {
        id: found.id()?,
        start: found.start(),
        pg_age: found.pg_age(),
    })
}

impl PlaybackContext for ServiceContext {
    fn program_at(&self, livestream: &LivestreamId, at: UnixSeconds) -> Option<ProgramAtPosition> {
        let catalog = self.catalog.snapshot();
        let livestream = catalog.livestream(livestream)?;
        let (rights, found) = PositionRights::at(&self.schedule.snapshot(), livestream, at);
        Some(ProgramAtPosition {
            program: found.as_ref().and_then(program),
            rights,
        })
    }

    fn broadcast(&self, id: &BroadcastId) -> Option<ProgramAtPosition> {
        let found = self.schedule.snapshot().program(id)?;
        let catalog = self.catalog.snapshot();
        let livestream = catalog.livestream(found.livestream())?;
        Some(ProgramAtPosition {
            program: program(&found),
            // The rights of the whole broadcast, which do not depend on a position.
            rights: PositionRights::for_program(livestream, &found),
        })
    }

    fn program_needs_pin(
        &self,
        user: &UserId,
        livestream: &LivestreamId,
        program: &PlayedProgram,
    ) -> bool {
        let catalog = self.catalog.snapshot();
        match (self.accounts.user(user), catalog.livestream(livestream)) {
            (Some(user), Some(livestream)) => {
                self.pins
                    .program_needs_pin(&user, livestream, program.start, program.pg_age)
            }
            // Fail closed: an unknown user or livestream needs the PIN.
            _ => true,
        }
    }

    fn vod_needs_pin(&self, user: &UserId, asset: &AssetId) -> bool {
        let catalog = self.catalog.snapshot();
        match (self.accounts.user(user), catalog.asset(asset)) {
            (Some(user), Some(asset)) => self.pins.asset_needs_pin(&user, asset.pg_age),
            _ => true,
        }
    }

    fn name(&self, asset: &AssetId) -> Option<String> {
        Some(match self.source(asset)? {
            PlayableItem::Livestream(found) => found.name.clone(),
            PlayableItem::Asset(found) => found.title.clone(),
        })
    }

    fn playlists(&self, asset: &AssetId) -> Option<AssetDelivery> {
        let source = self.source(asset)?;
        let (encrypted, playlist) = match &source {
            PlayableItem::Livestream(found) => (found.encrypted, &found.playlist),
            PlayableItem::Asset(found) => (found.encrypted, &found.playlist),
        };
        Some(AssetDelivery {
            encrypted,
            protocols: playlist.0.keys().copied().collect(),
        })
    }

    fn playable(&self, asset: &AssetId, protocol: Protocol) -> Option<Playable> {
        let source = self.source(asset)?;
        let (encrypted, streams, playlist) = match &source {
            PlayableItem::Livestream(found) => (found.encrypted, found.streams, &found.playlist),
            PlayableItem::Asset(found) => (found.encrypted, found.streams, &found.playlist),
        };
        Some(Playable {
            encrypted,
            streams,
            address: playlist.0.get(&protocol.family()).cloned(),
        })
    }

    fn still_entitled(&self, viewer: &Viewer, asset: &AssetId, now: UnixSeconds) -> bool {
        self.accounts
            .user(&viewer.user)
            // An erased user is not entitled.
            .is_some_and(|user| self.rights.is_entitled(&user, asset, viewer.country, now))
    }

    fn key_ids(&self, asset: &AssetId) -> Vec<[u8; 16]> {
        let source = self.source(asset);
        let keys = source.iter().flat_map(PlayableItem::keys);
        keys.map(|key| *key.as_bytes()).collect()
    }

    fn content_key(&self, asset: &AssetId, kid: &[u8; 16]) -> Option<[u8; 16]> {
        // A key of another asset must not be given with this one.
        self.key_ids(asset).contains(kid).then_some(())?;
        let key = self.catalog.content_key(&KeyId::from_bytes(*kid))?;
        Some(*key.reveal())
    }

    fn exists(&self, txn: &Txn<'_>, user: &UserId) -> bool {
        self.accounts.exists_in_memory(txn, user)
    }
}
