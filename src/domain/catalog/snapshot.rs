//! The catalogue as it is at one moment: what every request reads.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use chrono_tz::Tz;

use super::content_keys::SealedKey;
use super::model::{Asset, KeyId, Livestream, Offer, Pack};
use super::rules::{self, Effects, Rule};
use crate::domain::schedule::{Broadcast, BroadcastRights, ChannelFacts, Rights};
use crate::types::{AssetId, BroadcastId, LivestreamId, OfferId};

/// Everything in the catalogue, without what can be worked out from it.
#[derive(Clone, Default, PartialEq)]
pub(super) struct Contents {
    pub(super) livestreams: BTreeMap<LivestreamId, Arc<Livestream>>,
    pub(super) assets: BTreeMap<AssetId, Arc<Asset>>,
    pub(super) offers: BTreeMap<OfferId, Arc<Offer>>,
    pub(super) rules: Vec<Arc<Rule>>,
    pub(super) broadcasts: BTreeMap<BroadcastId, Effects>,
    pub(super) keys: BTreeMap<KeyId, SealedKey>,
}

impl Contents {
    /// The number of rows, for the bound on them.
    pub(super) fn rows(&self) -> usize {
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

/// The catalogue at one moment. It does not change; a later one takes its place.
pub struct Snapshot {
    pub(super) contents: Contents,
    /// The rules that concern each livestream, in their order.
    rules: HashMap<LivestreamId, Vec<Arc<Rule>>>,
    /// The offers that list a livestream or an asset.
    listing: HashMap<AssetId, Vec<Arc<Offer>>>,
    /// The offers of everything.
    of_everything: Vec<Arc<Offer>>,
}

impl Snapshot {
    /// Works out what is looked up; `zone` is that of livestreams without one of their own.
    pub(super) fn new(mut contents: Contents, zone: Tz) -> Self {
        for livestream in contents.livestreams.values_mut() {
            let zone = livestream.own_zone.unwrap_or(zone);
            if livestream.zone != zone {
                Arc::make_mut(livestream).zone = zone;
            }
        }
        let concerning = |id: &LivestreamId| -> Vec<Arc<Rule>> {
            let concerns = |rule: &&Arc<Rule>| rule.condition.concerns(id);
            contents.rules.iter().filter(concerns).cloned().collect()
        };
        let rules = (contents.livestreams.keys())
            .map(|id| (id.clone(), concerning(id)))
            .collect();
        let mut listing: HashMap<AssetId, Vec<Arc<Offer>>> = HashMap::new();
        let mut of_everything = Vec::new();
        for offer in contents.offers.values() {
            match &offer.pack {
                Pack::All => of_everything.push(Arc::clone(offer)),
                Pack::Listed {
                    livestreams,
                    assets,
                } => {
                    let ids = livestreams.iter().map(AssetId::from);
                    for id in ids.chain(assets.iter().cloned()) {
                        listing.entry(id).or_default().push(Arc::clone(offer));
                    }
                }
            }
        }
        Self {
            contents,
            rules,
            listing,
            of_everything,
        }
    }

    /// A livestream.
    #[must_use]
    pub fn livestream(&self, id: &LivestreamId) -> Option<&Arc<Livestream>> {
        self.contents.livestreams.get(id)
    }

    /// A video on demand.
    #[must_use]
    pub fn asset(&self, id: &AssetId) -> Option<&Arc<Asset>> {
        self.contents.assets.get(id)
    }

    /// An offer.
    #[must_use]
    pub fn offer(&self, id: &OfferId) -> Option<&Arc<Offer>> {
        self.contents.offers.get(id)
    }

    /// All livestreams, by id.
    pub fn livestreams(&self) -> impl ExactSizeIterator<Item = &Arc<Livestream>> {
        self.contents.livestreams.values()
    }

    /// All videos on demand, by id.
    pub fn assets(&self) -> impl ExactSizeIterator<Item = &Arc<Asset>> {
        self.contents.assets.values()
    }

    /// All offers, by id.
    pub fn offers(&self) -> impl ExactSizeIterator<Item = &Arc<Offer>> {
        self.contents.offers.values()
    }

    /// All rules, in their order.
    pub fn rules(&self) -> impl ExactSizeIterator<Item = &Arc<Rule>> {
        self.contents.rules.iter()
    }

    /// What is said of single broadcasts, by id.
    pub fn broadcasts(&self) -> impl ExactSizeIterator<Item = (&BroadcastId, &Effects)> {
        self.contents.broadcasts.iter()
    }

    /// The offers whose pack holds a livestream or a video on demand; the broadcasts of a
    /// livestream are in its packs.
    pub fn offers_of(&self, id: &AssetId) -> impl Iterator<Item = &Arc<Offer>> {
        self.listing
            .get(id)
            .into_iter()
            .flatten()
            .chain(&self.of_everything)
    }

    /// Whether the key of this id is known.
    #[must_use]
    pub fn has_key(&self, id: &KeyId) -> bool {
        self.contents.keys.contains_key(id)
    }
}

impl Rights for Snapshot {
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
            return BroadcastRights::default();
        };
        let rules = self.rules.get(&livestream.id).into_iter().flatten();
        let own = self.contents.broadcasts.get(&broadcast.id);
        rules::rights(livestream, broadcast, rules.map(|rule| &**rule), own)
    }

    fn is_taken(&self, id: &str) -> bool {
        self.contents.livestreams.contains_key(id) || self.contents.assets.contains_key(id)
    }
}
