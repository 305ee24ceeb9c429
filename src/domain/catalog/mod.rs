//! The catalogue: livestreams, videos on demand, offers, rights by rule, content keys.
//!
//! It owns what of these there is and how it changes: by files, as a whole, or one right at a time.
//! Who may play what is decided by [`entitlement`](super::entitlement); how files are written is not
//! known here.

mod content_keys;
mod diff;
mod edit;
mod error;
mod explain;
mod glob;
mod history;
pub mod import;
mod model;
mod plausibility;
mod rules;
mod snapshot;
mod tables;
mod time_window;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use arc_swap::ArcSwap;
use chrono_tz::Tz;
use parking_lot::Mutex;

pub use content_keys::{ContentKeySealer, SealedKey, drop_keys, sealed_otherwise};
pub use diff::{CatalogDiff, Change, Kind, MemberChange, What};
pub use edit::Edit;
pub use error::CatalogError;
pub use explain::{ExplainedRight, Layer, Source};
pub use glob::Glob;
pub use history::{ReadText, Replaced, Undo, VERSIONS_MAX, Version, WriteText};
pub use import::{CatalogImport, Mode, Problem, Reference, Spanned};
pub use model::{
    Asset, CATCHUP_DAYS_MAX, ContentKey, DURATION_DAYS_MAX, ExtendedRights, IMAGES_MAX, KEYS_MAX,
    KeyId, Livestream, Location, NAME_MAX, Offer, OfferKind, PG_AGE_MAX, Pack, Playlists,
    RULE_IDS_MAX, STREAMS_MAX, Unrated, Window,
};
pub use plausibility::CatalogIssue;
pub use rules::{Condition, Effects, Rule, TimeWindow};
use snapshot::Contents;
pub use snapshot::Snapshot;
pub use tables::schema;
pub use time_window::Hours;

use crate::ports::Entropy;
use crate::store::{Durability, Store, StoreError};
use crate::types::UnixSeconds;
use history::Leaving;

/// How many rows the catalogue has at the most, all tables together: one import is one commit, and
/// the writer thread does nothing else meanwhile.
pub const ROWS_MAX: usize = 100_000;

/// How many rules there are at the most: each is tried on every broadcast that it may concern, and
/// two states of the catalogue are told apart by comparing all with all.
pub const RULES_MAX: usize = 2_000;

/// What the configuration says of the catalogue.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// The zone of livestreams without one of their own.
    pub zone: Tz,
}

/// What the import of a file is to do.
pub struct FileImport<'a> {
    /// What becomes of what the file does not name.
    pub mode: Mode,
    /// Only report.
    pub dry_run: bool,
    /// Import even what looks implausible.
    pub accept: bool,
    /// The instant of the import.
    pub now: UnixSeconds,
    /// How many users hold an offer.
    pub holders: &'a dyn Fn(&Offer) -> usize,
    /// Writes the present catalogue for the history.
    pub write: WriteText<'a>,
}

/// What the import of a file changed, or would.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// What changes.
    pub difference: CatalogDiff,
    /// What speaks against it; an accepted import has it too.
    pub doubts: Vec<CatalogIssue>,
}

impl From<CatalogDiff> for Imported {
    /// A change that is not judged.
    fn from(difference: CatalogDiff) -> Self {
        Self {
            difference,
            doubts: Vec::new(),
        }
    }
}

/// The catalogue. A handle; clones are the same catalogue.
#[derive(Clone)]
pub struct Catalog(Arc<Inner>);

struct Inner {
    store: Store,
    entropy: Arc<dyn Entropy>,
    vault: ContentKeySealer,
    settings: Settings,
    snapshot: ArcSwap<Snapshot>,
    /// Held from the look at the snapshot to the exchange of it: imports are one after the other.
    importing: Mutex<()>,
}

impl Catalog {
    /// Reads the catalogue into memory. `master` is the appliance's master key.
    ///
    /// # Errors
    /// That the store failed or a record is damaged.
    pub fn open(
        store: Store,
        entropy: Arc<dyn Entropy>,
        master: &[u8; 32],
        settings: Settings,
    ) -> Result<Self, StoreError> {
        let contents = store.read(tables::load)?;
        let snapshot = Snapshot::new(contents, settings.zone);
        Ok(Self(Arc::new(Inner {
            store,
            entropy,
            vault: ContentKeySealer::new(master),
            settings,
            snapshot: ArcSwap::from_pointee(snapshot),
            importing: Mutex::new(()),
        })))
    }

    /// The catalogue as it is now.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.0.snapshot.load_full()
    }

    /// A content key in clear, for a license. Nothing if the catalogue names it without a key, or
    /// if it was sealed under another master key.
    #[must_use]
    pub fn content_key(&self, id: &KeyId) -> Option<ContentKey> {
        let snapshot = self.0.snapshot.load();
        let sealed = snapshot.contents.keys.get(id)?;
        let key = self.0.vault.open(id, sealed);
        if key.is_none() {
            tracing::error!(kid = %id, "a content key does not open: was the master key exchanged?");
        }
        key
    }

    /// Brings a file in, all of it in one durable commit or nothing, and tells what it changes;
    /// `dry_run` only tells. `is_broadcast` knows the ids of the schedule, which shares its
    /// namespace with the catalogue. Blocks; to be called in a lane.
    ///
    /// # Errors
    /// [`CatalogError::Invalid`] with every mistake; [`CatalogError::TooMany`]; the store's.
    pub fn import(
        &self,
        import: CatalogImport,
        mode: Mode,
        dry_run: bool,
        is_broadcast: &dyn Fn(&str) -> bool,
    ) -> Result<CatalogDiff, CatalogError> {
        let next = |current: &Contents| {
            let mistakes = import.mistakes(current, mode, is_broadcast);
            if !mistakes.is_empty() {
                return Err(CatalogError::Invalid(mistakes));
            }
            Ok(import.apply(current, mode, &self.0.vault, &*self.0.entropy))
        };
        self.change(dry_run, next, |_, _| Ok(None))
    }

    /// Brings a file in as [`Catalog::import`] does, unless it would take so much away that a person
    /// has to accept it, and keeps the catalogue that it replaces.
    ///
    /// # Errors
    /// As [`Catalog::import`]; [`CatalogError::Held`].
    pub fn import_file(
        &self,
        import: CatalogImport,
        how: &FileImport<'_>,
        is_broadcast: &dyn Fn(&str) -> bool,
    ) -> Result<Imported, CatalogError> {
        let next = |current: &Contents| {
            let mistakes = import.mistakes(current, how.mode, is_broadcast);
            if !mistakes.is_empty() {
                return Err(CatalogError::Invalid(mistakes));
            }
            Ok(import.apply(current, how.mode, &self.0.vault, &*self.0.entropy))
        };
        let mut doubts = Vec::new();
        let difference = self.change(how.dry_run, next, |old, change| {
            doubts = plausibility::doubts(&old.contents, change.next, how.holders);
            if !doubts.is_empty() && !how.accept && !how.dry_run {
                let difference = change.difference.clone();
                let doubts = std::mem::take(&mut doubts);
                return Err(CatalogError::Held(Imported { difference, doubts }));
            }
            Leaving::new(old, how.write, Replaced::ByImport, how.now).map(Some)
        })?;
        Ok(Imported { difference, doubts })
    }

    /// Puts what `next` makes of the contents in their place. `leaving` sees the change before it is
    /// made: it can refuse it, and says how what is replaced is kept.
    fn change(
        &self,
        dry_run: bool,
        next: impl FnOnce(&Contents) -> Result<Contents, CatalogError>,
        leaving: impl FnOnce(&Snapshot, &Replacing<'_>) -> Result<Option<Leaving>, CatalogError>,
    ) -> Result<CatalogDiff, CatalogError> {
        let inner = &*self.0;
        let _one_at_a_time = inner.importing.lock();
        let current = inner.snapshot.load_full();
        let next = next(&current.contents)?;
        within("rules", next.rules.len(), RULES_MAX)?;
        within("rows", next.rows(), ROWS_MAX)?;
        let next = Arc::new(Snapshot::new(next, inner.settings.zone));
        let difference = CatalogDiff::between(&current.contents, &next.contents);
        let replacing = Replacing {
            next: &next.contents,
            difference: &difference,
        };
        let leaving = leaving(&current, &replacing)?;
        if !dry_run && !difference.changes.is_empty() {
            let (old, new) = (current, Arc::clone(&next));
            inner
                .store
                .write(Durability::Durable, move |txn| {
                    if let Some(leaving) = leaving {
                        leaving.insert(txn)?;
                    }
                    tables::save(txn, &old.contents, &new.contents)
                })
                .wait()?;
            inner.snapshot.store(next);
        }
        Ok(difference)
    }
}

/// A change that is about to be made.
struct Replacing<'a> {
    next: &'a Contents,
    difference: &'a CatalogDiff,
}

fn within(what: &'static str, rows: usize, most: usize) -> Result<(), CatalogError> {
    if rows > most {
        return Err(CatalogError::TooMany { what, rows, most });
    }
    Ok(())
}
