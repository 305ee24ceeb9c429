//! An immutable view of the catalogue, used by every request.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::content_keys::SealedKey;
use super::model::{Asset, KeyId, Livestream, Offer, Pack};
use super::rules::{self, Effects, Rule};
use crate::schedule::{Broadcast, BroadcastRights, ChannelFacts, Rights};
use playgate_types::{AssetId, BroadcastId, LivestreamId, OfferId, Zone};

#[derive(Clone, Default, PartialEq)]
pub(super) struct CatalogContents {
    pub(super) livestreams: BTreeMap<LivestreamId, Arc<Livestream>>,
    pub(super) assets: BTreeMap<AssetId, Arc<Asset>>,
    pub(super) offers: BTreeMap<OfferId, Arc<Offer>>,
    pub(super) rules: Vec<Arc<Rule>>,
    pub(super) broadcasts: BTreeMap<BroadcastId, Effects>,
    pub(super) keys: BTreeMap<KeyId, SealedKey>,
}

impl CatalogContents {
    pub(super) fn rows(&self) -> usize {
        // Destructured, so that a new table cannot be left out of the limit.
        let Self {
            livestreams,
            assets,
            offers,
            rules,
            broadcasts,
            keys,
        } = self;
        let packs = offers.values().map(|offer| match &offer.pack {
            Pack::All => 0,
            Pack::Listed {
                livestreams,
                assets,
            } => livestreams.len() + assets.len(),
        });
        livestreams.len()
            + assets.len()
            + offers.len()
            + rules.len()
            + broadcasts.len()
            + keys.len()
            + packs.sum::<usize>()
    }
}

#[derive(Default)]
pub struct CatalogSnapshot {
    pub(super) contents: CatalogContents,
    rules: HashMap<LivestreamId, Vec<Arc<Rule>>>,
    by_item: HashMap<AssetId, Vec<Arc<Offer>>>,
    unrestricted: Vec<Arc<Offer>>,
}

impl CatalogSnapshot {
    pub(super) fn new(mut contents: CatalogContents, zone: Zone) -> Self {
        for livestream in contents.livestreams.values_mut() {
            let zone = livestream.own_zone.unwrap_or(zone);
            // Copy on write: unchanged livestreams stay shared with the previous snapshot.
            if livestream.zone != zone {
                Arc::make_mut(livestream).zone = zone;
            }
        }
        // Precomputed, since a guide evaluates the rules for hundreds of thousands of broadcasts.
        let concerning = |id: &LivestreamId| -> Vec<Arc<Rule>> {
            let concerns = |rule: &&Arc<Rule>| rule.condition.concerns(id);
            contents.rules.iter().filter(concerns).cloned().collect()
        };
        let rules = (contents.livestreams.keys())
            .map(|id| (id.clone(), concerning(id)))
            .collect();
        let mut by_item: HashMap<AssetId, Vec<Arc<Offer>>> = HashMap::new();
        let mut unrestricted = Vec::new();
        for offer in contents.offers.values() {
            match &offer.pack {
                // Kept separately, or every entry of `by_item` would list these offers.
                Pack::All => unrestricted.push(Arc::clone(offer)),
                Pack::Listed {
                    livestreams,
                    assets,
                } => {
                    // Livestreams and assets share one namespace, so one map holds both.
                    let ids = livestreams.iter().map(AssetId::from);
                    for id in ids.chain(assets.iter().cloned()) {
                        by_item.entry(id).or_default().push(Arc::clone(offer));
                    }
                }
            }
        }
        Self {
            contents,
            rules,
            by_item,
            unrestricted,
        }
    }

    pub fn livestream(&self, id: &LivestreamId) -> Option<&Arc<Livestream>> {
        self.contents.livestreams.get(id)
    }

    pub fn asset(&self, id: &AssetId) -> Option<&Arc<Asset>> {
        self.contents.assets.get(id)
    }

    pub fn offer(&self, id: &OfferId) -> Option<&Arc<Offer>> {
        self.contents.offers.get(id)
    }

    pub fn livestreams(&self) -> impl ExactSizeIterator<Item = &Arc<Livestream>> {
        self.contents.livestreams.values()
    }

    pub fn assets(&self) -> impl ExactSizeIterator<Item = &Arc<Asset>> {
        self.contents.assets.values()
    }

    pub fn offers(&self) -> impl ExactSizeIterator<Item = &Arc<Offer>> {
        self.contents.offers.values()
    }

    pub fn rules(&self) -> impl ExactSizeIterator<Item = &Arc<Rule>> {
        self.contents.rules.iter()
    }

    pub fn broadcasts(&self) -> impl ExactSizeIterator<Item = (&BroadcastId, &Effects)> {
        self.contents.broadcasts.iter()
    }

    /// Returns the offers that include an asset or a livestream. Broadcasts belong to the offers of their livestream.
    pub fn offers_of(&self, id: &AssetId) -> impl Iterator<Item = &Arc<Offer>> {
        self.by_item
            .get(id)
            .into_iter()
            .flatten()
            .chain(&self.unrestricted)
    }

    pub fn has_key(&self, id: &KeyId) -> bool {
        self.contents.keys.contains_key(id)
    }
}

impl Rights for CatalogSnapshot {
    fn livestreams(&self) -> Vec<LivestreamId> {
        self.contents.livestreams.keys().cloned().collect()
    }

    fn channel(&self, livestream: &LivestreamId) -> Option<ChannelFacts> {
        let livestream = self.livestream(livestream)?;
        let zone = livestream.zone;
        Some(ChannelFacts { zone })
    }

    fn rights(&self, livestream: &LivestreamId, broadcast: &Broadcast) -> BroadcastRights {
        let Some(livestream) = self.livestream(livestream) else {
            // The schedule does not serve unknown livestreams, so no right is the safe answer.
            return BroadcastRights::default();
        };
        let rules = self.rules.get(&livestream.id).into_iter().flatten();
        let broadcast_effects = self.contents.broadcasts.get(&broadcast.id);
        rules::rights(
            livestream,
            broadcast,
            rules.map(|rule| &**rule),
            broadcast_effects,
        )
    }

    fn has_override(&self, id: &BroadcastId) -> bool {
        self.contents.broadcasts.contains_key(id)
    }

    fn is_taken(&self, id: &str) -> bool {
        self.contents.livestreams.contains_key(id) || self.contents.assets.contains_key(id)
    }
}
