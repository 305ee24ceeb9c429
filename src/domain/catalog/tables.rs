//! The tables of the catalogue.
//!
//! Packs have their own table: a pack can be larger than the store's limit for a value.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::content_keys::SealedKey;
use super::model::{Asset, KeyId, Livestream, Offer, OfferKind, Pack, Window};
use super::rules::{Effects, Rule};
use super::snapshot::CatalogContents;
use playgate_store::{All, Record, Schema, StoreError, Table, TreeName, Txn, read_record};
use playgate_types::{AssetId, BroadcastId, Country, LivestreamId, OfferId};

pub(super) fn schema(schema: Schema) -> Schema {
    schema
        .with::<Livestreams>()
        .with::<Assets>()
        .with::<Offers>()
        .with::<Packs>()
        .with::<Rules>()
        .with::<Broadcasts>()
        .with::<ContentKeyTable>()
}

/// The tables that the catalogue in memory is derived from: those of [`load`].
pub(super) const TREES: [TreeName; 7] = [
    Livestreams::NAME,
    Assets::NAME,
    Offers::NAME,
    Packs::NAME,
    Rules::NAME,
    Broadcasts::NAME,
    ContentKeyTable::NAME,
];

struct Livestreams;

impl Record for Livestream {
    const VERSION: u8 = 3;

    fn upgrade(version: u8, bytes: &[u8]) -> Option<Self> {
        match version {
            // Version 1 lacks `unrated`, 2 lacks `number` and `group`; a zero byte means `None`.
            1 => read_record(&[bytes, &[0; 3]].concat()),
            2 => read_record(&[bytes, &[0; 2]].concat()),
            _ => None,
        }
    }
}

impl Table for Livestreams {
    const NAME: TreeName = "catalog.livestreams";
    type Key = LivestreamId;
    type Record = Livestream;
}

struct Assets;

impl Record for Asset {}

impl Table for Assets {
    const NAME: TreeName = "catalog.assets";
    type Key = AssetId;
    type Record = Asset;
}

struct Offers;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct OfferRecord {
    pub(super) kind: OfferKind,
    /// Whether the offer contains the whole catalogue. Otherwise [`Packs`] lists its content.
    pub(super) all: bool,
    pub(super) countries: Vec<Country>,
    pub(super) sale: Window,
    pub(super) duration_days: Option<u32>,
}

impl Record for OfferRecord {}

impl Table for Offers {
    const NAME: TreeName = "catalog.offers";
    type Key = OfferId;
    type Record = OfferRecord;
}

struct Packs;

/// Livestreams and assets share one namespace.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum PackRecord {
    Livestream,
    Asset,
}

impl Record for PackRecord {}

impl Table for Packs {
    const NAME: TreeName = "catalog.packs";
    type Key = (OfferId, AssetId);
    type Record = PackRecord;
}

struct Rules;

impl Record for Rule {}

impl Table for Rules {
    const NAME: TreeName = "catalog.rules";
    type Key = u32;
    type Record = Rule;
}

struct Broadcasts;

impl Record for Effects {}

impl Table for Broadcasts {
    const NAME: TreeName = "catalog.broadcasts";
    type Key = BroadcastId;
    type Record = Effects;
}

struct ContentKeyTable;

impl Record for SealedKey {}

impl Table for ContentKeyTable {
    const NAME: TreeName = "catalog.keys";
    type Key = [u8; 16];
    type Record = SealedKey;
}

pub(super) fn sealed_keys(txn: &Txn<'_>) -> Result<Vec<(KeyId, SealedKey)>, StoreError> {
    let keys = txn.scan::<ContentKeyTable>(&All, usize::MAX)?.into_iter();
    Ok(keys.map(|(id, key)| (KeyId::from_bytes(id), key)).collect())
}

pub(super) fn drop_key(txn: &mut Txn<'_>, id: &KeyId) -> Result<(), StoreError> {
    txn.delete::<ContentKeyTable>(id.as_bytes())
}

pub(super) fn load(txn: &Txn<'_>) -> Result<CatalogContents, StoreError> {
    // A damaged record is an error: skipping a rule or an override would grant rights that were
    // withheld.
    let every = usize::MAX;
    let mut packs: BTreeMap<OfferId, (BTreeSet<LivestreamId>, BTreeSet<AssetId>)> = BTreeMap::new();
    for ((offer, id), record) in txn.scan::<Packs>(&All, every)? {
        let (livestreams, assets) = packs.entry(offer).or_default();
        match record {
            PackRecord::Livestream => livestreams.insert(LivestreamId::from(&id)),
            PackRecord::Asset => assets.insert(id),
        };
    }
    let offer = |(id, record): (OfferId, OfferRecord)| {
        // An empty pack has no rows.
        let (livestreams, assets) = packs.remove(&id).unwrap_or_default();
        let pack = if record.all {
            Pack::All
        } else {
            Pack::Listed {
                livestreams,
                assets,
            }
        };
        let offer = Offer {
            id: id.clone(),
            kind: record.kind,
            pack,
            countries: record.countries,
            sale: record.sale,
            duration_days: record.duration_days,
        };
        (id, Arc::new(offer))
    };
    Ok(CatalogContents {
        livestreams: shared(txn.scan::<Livestreams>(&All, every)?),
        assets: shared(txn.scan::<Assets>(&All, every)?),
        offers: txn
            .scan::<Offers>(&All, every)?
            .into_iter()
            .map(offer)
            .collect(),
        rules: txn
            .scan::<Rules>(&All, every)?
            .into_iter()
            .map(|(_, rule)| Arc::new(rule))
            .collect(),
        broadcasts: txn.scan::<Broadcasts>(&All, every)?.into_iter().collect(),
        keys: sealed_keys(txn)?.into_iter().collect(),
    })
}

fn shared<K: Ord, V>(rows: Vec<(K, V)>) -> BTreeMap<K, Arc<V>> {
    rows.into_iter()
        .map(|(key, row)| (key, Arc::new(row)))
        .collect()
}

pub(super) fn save(
    txn: &mut Txn<'_>,
    old: &CatalogContents,
    new: &CatalogContents,
) -> Result<(), StoreError> {
    update_table::<Livestreams, _>(txn, &old.livestreams, &new.livestreams, |row| &**row)?;
    update_table::<Assets, _>(txn, &old.assets, &new.assets, |row| &**row)?;
    update_table::<Broadcasts, _>(txn, &old.broadcasts, &new.broadcasts, |row| row)?;
    update_table::<ContentKeyTable, _>(txn, &by_bytes(&old.keys), &by_bytes(&new.keys), |row| row)?;
    update_table::<Rules, _>(txn, &numbered(&old.rules), &numbered(&new.rules), |row| {
        &**row
    })?;
    let (old_offers, new_offers) = (offer_rows(old), offer_rows(new));
    update_table::<Offers, _>(txn, &old_offers, &new_offers, |row| row)?;
    update_table::<Packs, _>(txn, &pack_rows(old), &pack_rows(new), |row| row)
}

fn update_table<T: Table, V: PartialEq>(
    txn: &mut Txn<'_>,
    old: &BTreeMap<T::Key, V>,
    new: &BTreeMap<T::Key, V>,
    record: impl Fn(&V) -> &T::Record,
) -> Result<(), StoreError> {
    // Only changed rows are written, so that most imports are small commits.
    for key in old.keys().filter(|key| !new.contains_key(key)) {
        txn.delete::<T>(key)?;
    }
    for (key, row) in new {
        if old.get(key) != Some(row) {
            txn.put::<T>(key, record(row))?;
        }
    }
    Ok(())
}

fn by_bytes(keys: &BTreeMap<KeyId, SealedKey>) -> BTreeMap<[u8; 16], SealedKey> {
    keys.iter()
        .map(|(id, key)| (*id.as_bytes(), key.clone()))
        .collect()
}

fn numbered(rules: &[Arc<Rule>]) -> BTreeMap<u32, Arc<Rule>> {
    // Keyed by position: removing a rule rewrites those after it.
    (0..).zip(rules.iter().cloned()).collect()
}

fn offer_rows(contents: &CatalogContents) -> BTreeMap<OfferId, OfferRecord> {
    let record = |offer: &Offer| OfferRecord {
        kind: offer.kind,
        all: offer.pack == Pack::All,
        countries: offer.countries.clone(),
        sale: offer.sale,
        duration_days: offer.duration_days,
    };
    let rows = contents.offers.iter();
    rows.map(|(id, offer)| (id.clone(), record(offer)))
        .collect()
}

fn pack_rows(contents: &CatalogContents) -> BTreeMap<(OfferId, AssetId), PackRecord> {
    let mut rows = BTreeMap::new();
    for (id, offer) in &contents.offers {
        if let Pack::Listed {
            livestreams,
            assets,
        } = &offer.pack
        {
            rows.extend(livestreams.iter().map(|livestream| {
                // Livestreams and assets share one namespace, so they share the key type.
                let row = (id.clone(), AssetId::from(livestream));
                (row, PackRecord::Livestream)
            }));
            let asset = |asset: &AssetId| ((id.clone(), asset.clone()), PackRecord::Asset);
            rows.extend(assets.iter().map(asset));
        }
    }
    rows
}
