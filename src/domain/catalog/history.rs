//! Earlier versions of the catalogue, so that the import of a file can be undone.
//!
//! A version is stored as the text of a catalogue file, which every later release can read, plus the sealed
//! content keys, which the text does not contain. It is written in the commit of the import that replaces it,
//! so both are stored or neither is.

use std::collections::BTreeMap;
use std::io::{self, Read as _};

use flate2::Compression;
use flate2::read::{GzDecoder, GzEncoder};
use serde::{Deserialize, Serialize};

use super::content_keys::SealedKey;
use super::import::{CatalogImport, Mode};
use super::model::{KeyId, Offer};
use super::snapshot::{CatalogContents, CatalogSnapshot};
use super::{Catalog, CatalogError, CatalogImported, plausibility};
use playgate_store::{All, Record, Schema, StoreError, Table, TreeName, Txn};
use playgate_types::UnixSeconds;

/// Maximum number of versions; the oldest is removed first.
pub const VERSIONS_MAX: u64 = 20;
/// Maximum size of an unpacked text in bytes. Every importable catalogue is smaller, so a longer text is damaged.
const TEXT_MAX: u64 = 64 * 1024 * 1024;
/// Bytes of a text per record, below the store's limit for a value.
const CHUNK_BYTES: usize = 12 * 1024;

pub(super) fn schema(schema: Schema) -> Schema {
    schema
        .with::<Versions>()
        .with::<CatalogTexts>()
        .with::<VersionKeys>()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Replaced {
    ByImport,
    ByUndo,
}

impl Replaced {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ByImport => "import",
            Self::ByUndo => "undo",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    pub number: u64,
    pub record: VersionRecord,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionRecord {
    pub replaced: UnixSeconds,
    pub by: Replaced,
    pub livestreams: u32,
    pub assets: u32,
    pub offers: u32,
    pub rules: u32,
}

impl Record for VersionRecord {}

/// Versions by the complement of their number, so that a scan begins with the newest.
struct Versions;

impl Table for Versions {
    const NAME: TreeName = "catalog.versions";
    type Key = u64;
    type Record = VersionRecord;
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TextRecord {
    packed: Vec<u8>,
}

impl Record for TextRecord {}

/// The catalogue file, compressed and in chunks.
struct CatalogTexts;

impl Table for CatalogTexts {
    const NAME: TreeName = "catalog.version_texts";
    type Key = (u64, u32);
    type Record = TextRecord;
}

struct VersionKeys;

impl Table for VersionKeys {
    const NAME: TreeName = "catalog.version_keys";
    type Key = (u64, [u8; 16]);
    type Record = SealedKey;
}

pub type WriteText<'a> = &'a dyn Fn(&CatalogSnapshot) -> String;
pub type ReadText<'a> = &'a dyn Fn(&str) -> CatalogImport;

/// A version that is ready to be stored. It is packed before the write batch, because packing takes time.
pub(super) struct ReplacedVersion {
    record: VersionRecord,
    chunks: Vec<TextRecord>,
    keys: BTreeMap<KeyId, SealedKey>,
}

impl ReplacedVersion {
    pub(super) fn new(
        snapshot: &CatalogSnapshot,
        write: WriteText<'_>,
        by: Replaced,
        now: UnixSeconds,
    ) -> Result<Self, CatalogError> {
        let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        let mut packed = Vec::new();
        GzEncoder::new(write(snapshot).as_bytes(), Compression::default())
            .read_to_end(&mut packed)
            .map_err(|_| CatalogError::VersionDamaged)?;
        // The size of a record is limited.
        let chunks = packed.chunks(CHUNK_BYTES).map(|chunk| TextRecord {
            packed: chunk.to_vec(),
        });
        Ok(Self {
            record: VersionRecord {
                replaced: now,
                by,
                livestreams: count(snapshot.livestreams().len()),
                assets: count(snapshot.assets().len()),
                offers: count(snapshot.offers().len()),
                rules: count(snapshot.rules().len()),
            },
            chunks: chunks.collect(),
            keys: snapshot.contents.keys.clone(),
        })
    }

    /// Stores the version, and removes the oldest if there are more than [`VERSIONS_MAX`].
    pub(super) fn insert(&self, txn: &mut Txn<'_>) -> Result<(), StoreError> {
        let newest = txn.scan::<Versions>(&All, 1)?;
        // Numbers only grow, so that a number always means the same version.
        let number = newest.first().map_or(1, |(key, _)| !key + 1);
        txn.put::<Versions>(&!number, &self.record)?;
        for (at, chunk) in (0..).zip(&self.chunks) {
            txn.put::<CatalogTexts>(&(number, at), chunk)?;
        }
        for (id, key) in &self.keys {
            txn.put::<VersionKeys>(&(number, *id.as_bytes()), key)?;
        }
        // One version is added, so at most one has to go.
        let Some(oldest) = number.checked_sub(VERSIONS_MAX) else {
            return Ok(());
        };
        txn.delete::<Versions>(&!oldest)?;
        for (key, _) in txn.scan::<CatalogTexts>(&oldest, usize::MAX)? {
            txn.delete::<CatalogTexts>(&key)?;
        }
        for (key, _) in txn.scan::<VersionKeys>(&oldest, usize::MAX)? {
            txn.delete::<VersionKeys>(&key)?;
        }
        Ok(())
    }
}

pub struct Undo<'a> {
    /// `None` stands for the newest version.
    pub version: Option<u64>,
    pub dry_run: bool,
    pub now: UnixSeconds,
    pub holders: &'a dyn Fn(&Offer) -> usize,
    pub write: WriteText<'a>,
    pub read: ReadText<'a>,
}

impl Catalog {
    pub fn history(&self) -> Result<Vec<Version>, StoreError> {
        let kept = self.0.store.read(|txn| {
            let most = usize::try_from(VERSIONS_MAX).unwrap_or(usize::MAX);
            txn.scan::<Versions>(&All, most)
        })?;
        let version = |(key, record): (u64, VersionRecord)| Version {
            // Keys are complements, so that a scan begins with the newest.
            number: !key,
            record,
        };
        Ok(kept.into_iter().map(version).collect())
    }

    /// Restores a version. Returns its number and the diff, with what would hold an import of a file. Blocking.
    pub fn undo(
        &self,
        undo: &Undo<'_>,
        is_broadcast: &dyn Fn(&str) -> bool,
    ) -> Result<(u64, CatalogImported), CatalogError> {
        let (number, text, keys) = self.0.store.read(|txn| kept(txn, undo.version))?;
        let import = (undo.read)(&text);
        let next = |current: &CatalogContents| {
            let mut next = current.clone();
            // Keys that were sealed under a lost master key do not open, so they are not restored.
            let opens = |(id, key): &(KeyId, SealedKey)| self.0.sealer.open(id, key).is_some();
            next.keys.extend(keys.into_iter().filter(opens));
            // Validated again: the schedule may use an id by now that the version gives to a livestream.
            let mistakes = import.mistakes(&next, Mode::Replace, is_broadcast);
            if !mistakes.is_empty() {
                return Err(CatalogError::Invalid(mistakes));
            }
            // The text contains no keys, so `apply` keeps those of `next` that its objects name.
            Ok(import.apply(&next, Mode::Replace, &self.0.sealer, &*self.0.entropy))
        };
        // The current catalogue becomes the newest version, so an undo can be undone.
        let mut issues = Vec::new();
        let difference = self.change(undo.dry_run, next, |old, change| {
            issues = plausibility::issues(&old.contents, change.next, undo.holders);
            ReplacedVersion::new(old, undo.write, Replaced::ByUndo, undo.now).map(Some)
        })?;
        Ok((number, CatalogImported { difference, issues }))
    }
}

type KeptCatalog = (u64, String, BTreeMap<KeyId, SealedKey>);

fn kept(txn: &Txn<'_>, version: Option<u64>) -> Result<KeptCatalog, CatalogError> {
    let number = match version {
        // Keys are complements of the numbers, so that a scan begins with the newest.
        Some(number) => txn.get::<Versions>(&!number)?.map(|_| number),
        None => txn.scan::<Versions>(&All, 1)?.first().map(|(key, _)| !key),
    };
    let number = number.ok_or(CatalogError::NoVersion)?;
    let mut packed = Vec::new();
    for (_, chunk) in txn.scan::<CatalogTexts>(&number, usize::MAX)? {
        packed.extend(chunk.packed);
    }
    let text = unpack(&packed).map_err(|_| CatalogError::VersionDamaged)?;
    let keys = txn.scan::<VersionKeys>(&number, usize::MAX)?;
    let keys = keys
        .into_iter()
        .map(|((_, id), key)| (KeyId::from_bytes(id), key));
    Ok((number, text, keys.collect()))
}

fn unpack(packed: &[u8]) -> io::Result<String> {
    let mut text = String::new();
    GzDecoder::new(packed)
        // A damaged record must not unpack to gigabytes.
        .take(TEXT_MAX)
        .read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use playgate_store::golden;

    #[test]
    fn record_bytes_are_stable() {
        let version = VersionRecord {
            replaced: UnixSeconds(1_767_225_600),
            by: Replaced::ByUndo,
            livestreams: 1,
            assets: 2,
            offers: 3,
            rules: 4,
        };
        assert_eq!(golden(&version), "01fc0072abd20101020304");
        let text = TextRecord {
            packed: vec![1, 2, 255],
        };
        assert_eq!(golden(&text), "01030102ff");
    }
}
