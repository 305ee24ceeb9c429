//! The catalogue: livestreams, videos on demand, offers, rules for rights, content keys.
//!
//! It owns these objects and their changes: import of files, and single edits. Access decisions belong to
//! [`entitlement`](super::entitlement). It does not know file formats.

mod content_keys;
mod diff;
mod edit;
mod error;
mod explain;
mod glob;
mod history;
pub(crate) mod import;
mod master_key;
mod model;
mod plausibility;
mod rules;
mod snapshot;
mod tables;
mod time_window;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use parking_lot::Mutex;

pub use content_keys::{ContentKeySealer, SealedKey};
pub use diff::{CatalogDiff, MemberChange, ObjectChange, ObjectKind, What};
pub use edit::CatalogEdit;
pub use error::CatalogError;
pub use explain::{ExplainedRight, Layer, Source};
pub use glob::Glob;
pub use history::{ReadText, Replaced, Undo, VERSIONS_MAX, Version, VersionRecord, WriteText};
pub use import::{CatalogImport, Mode, Reference, Spanned};
pub use master_key::{drop_keys, keys_of_another_master};
pub use model::{
    Asset, CATCHUP_DAYS_MAX, CHANNEL_NUMBER_MAX, ContentKey, DURATION_DAYS_MAX, ExtendedRights,
    GROUP_MAX, IMAGES_MAX, KEYS_MAX, KeyId, Livestream, Location, NAME_MAX, Offer, OfferKind,
    PG_AGE_MAX, Pack, Playlists, RULE_IDS_MAX, STREAMS_MAX, Unrated, Window,
};
pub use plausibility::CatalogIssue;
pub use rules::{Condition, Effects, Rule, TimeWindow};
use snapshot::CatalogContents;
pub use snapshot::CatalogSnapshot;
pub use time_window::Hours;

use history::ReplacedVersion;
use playgate_ports::Entropy;
use playgate_store::{Derived, Durability, Schema, Store, StoreError};
use playgate_types::{UnixSeconds, Zone};

/// Maximum number of rows in all tables. An import is one commit, which occupies the writer thread.
pub const ROWS_MAX: usize = 100_000;

/// Maximum number of rules. Each is evaluated for every broadcast that it may match, and a diff compares all with all.
pub const RULES_MAX: usize = 2_000;

pub fn schema(schema: Schema) -> Schema {
    tables::schema(history::schema(schema))
}

#[derive(Debug, Clone, Copy)]
pub struct CatalogSettings {
    /// Time zone of livestreams that set none.
    pub zone: Zone,
}

pub struct FileImport<'a> {
    pub mode: Mode,
    pub dry_run: bool,
    pub accept: bool,
    pub now: UnixSeconds,
    pub holders: &'a dyn Fn(&Offer) -> usize,
    pub write: WriteText<'a>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogImported {
    pub difference: CatalogDiff,
    /// Present on accepted imports, too.
    pub issues: Vec<CatalogIssue>,
}

impl From<CatalogDiff> for CatalogImported {
    fn from(difference: CatalogDiff) -> Self {
        Self {
            difference,
            issues: Vec::new(),
        }
    }
}

#[derive(Clone)]
pub struct Catalog(Arc<Inner>);

struct Inner {
    store: Store,
    entropy: Arc<dyn Entropy>,
    sealer: ContentKeySealer,
    settings: CatalogSettings,
    /// Replaced by the commit that changes the tables.
    snapshot: Arc<Derived<CatalogSnapshot>>,
    /// Held from reading the snapshot to replacing it, so that changes are serialised.
    importing: Mutex<()>,
}

impl Catalog {
    /// `master` is the master key of the content keys. A damaged record is an error.
    pub fn open(
        store: Store,
        entropy: Arc<dyn Entropy>,
        master: &[u8; 32],
        settings: CatalogSettings,
    ) -> Result<Self, StoreError> {
        // Before the tables are read: a commit in between is then loaded twice and not missed.
        let watch = store.watch(&tables::TREES)?;
        let contents = store.read(tables::load)?;
        let snapshot = CatalogSnapshot::new(contents, settings.zone);
        Ok(Self(Arc::new(Inner {
            store,
            entropy,
            sealer: ContentKeySealer::new(master),
            settings,
            snapshot: Derived::new(snapshot, watch),
            importing: Mutex::new(()),
        })))
    }

    pub fn snapshot(&self) -> Arc<CatalogSnapshot> {
        self.0.snapshot.load_full()
    }

    /// Follows commits that another process has planned; returns whether there were any. Blocking.
    pub fn catch_up(&self) -> Result<bool, StoreError> {
        self.catch_up_then(|| Ok(()))
    }

    /// Like [`catch_up`](Self::catch_up). The catalogue counts as [current](Self::is_current) only after `then`, which
    /// derives something else from it.
    pub fn catch_up_then<E: From<StoreError>>(
        &self,
        then: impl FnOnce() -> Result<(), E>,
    ) -> Result<bool, E> {
        let _importing = self.0.importing.lock();
        self.0.catch_up_then(then)
    }

    /// Whether the snapshot has every commit so far.
    pub fn is_current(&self) -> bool {
        self.0.snapshot.is_current()
    }

    /// Returns a key in clear text, for a license. `None` if no key is stored under the id, or if it was sealed under
    /// another master key.
    pub fn content_key(&self, id: &KeyId) -> Option<ContentKey> {
        let snapshot = self.0.snapshot.load();
        let sealed = snapshot.contents.keys.get(id)?;
        // Opened for each license, so that memory holds no key in clear text.
        let key = self.0.sealer.open(id, sealed);
        if key.is_none() {
            tracing::error!(kid = %id, "cannot decrypt a content key: `keys/content.key` is not the file that it was encrypted with");
        }
        key
    }

    /// Imports a file in one durable commit; `dry_run` only returns the diff. `is_broadcast` tests for
    /// ids of the schedule. Blocking: call it from a worker pool.
    pub fn import(
        &self,
        import: CatalogImport,
        mode: Mode,
        dry_run: bool,
        is_broadcast: &dyn Fn(&str) -> bool,
    ) -> Result<CatalogDiff, CatalogError> {
        let next = |current: &CatalogContents| self.apply(import, current, mode, is_broadcast);
        self.change(dry_run, next, |_, _| Ok(None))
    }

    fn apply(
        &self,
        import: CatalogImport,
        current: &CatalogContents,
        mode: Mode,
        is_broadcast: &dyn Fn(&str) -> bool,
    ) -> Result<CatalogContents, CatalogError> {
        let mistakes = import.mistakes(current, mode, is_broadcast);
        if !mistakes.is_empty() {
            return Err(CatalogError::Invalid(mistakes));
        }
        Ok(import.apply(current, mode, &self.0.sealer, &*self.0.entropy))
    }

    /// Appends rules. One that takes rights from every broadcast is held until it is accepted.
    pub fn add_rules(
        &self,
        import: CatalogImport,
        accept: bool,
    ) -> Result<CatalogDiff, CatalogError> {
        let next = |current: &CatalogContents| self.apply(import, current, Mode::Merge, &|_| false);
        self.change(false, next, |old, change| {
            let issues: Vec<_> = plausibility::rules(&old.contents, change.next).collect();
            match issues.is_empty() || accept {
                true => Ok(None),
                false => Err(CatalogError::Held(CatalogImported {
                    difference: change.difference.clone(),
                    issues,
                })),
            }
        })
    }

    /// Like [`Catalog::import`], but holds an implausible import until it is accepted, and adds the
    /// replaced catalogue to the history.
    pub fn import_file(
        &self,
        import: CatalogImport,
        how: &FileImport<'_>,
        is_broadcast: &dyn Fn(&str) -> bool,
    ) -> Result<CatalogImported, CatalogError> {
        let next = |current: &CatalogContents| self.apply(import, current, how.mode, is_broadcast);
        let mut issues = Vec::new();
        let difference = self.change(how.dry_run, next, |old, change| {
            issues = plausibility::issues(&old.contents, change.next, how.holders);
            // A dry run reports the issues as part of its result.
            if !issues.is_empty() && !how.accept && !how.dry_run {
                let difference = change.difference.clone();
                let issues = std::mem::take(&mut issues);
                return Err(CatalogError::Held(CatalogImported { difference, issues }));
            }
            ReplacedVersion::new(old, how.write, Replaced::ByImport, how.now).map(Some)
        })?;
        Ok(CatalogImported { difference, issues })
    }

    /// `replaced` sees the change first: it may reject it, and returns the history entry of the replaced
    /// catalogue.
    fn change(
        &self,
        dry_run: bool,
        next: impl FnOnce(&CatalogContents) -> Result<CatalogContents, CatalogError>,
        replaced: impl FnOnce(
            &CatalogSnapshot,
            &Replacing<'_>,
        ) -> Result<Option<ReplacedVersion>, CatalogError>,
    ) -> Result<CatalogDiff, CatalogError> {
        let inner = &*self.0;
        // Waits for a running change, which may replace what this one is based on.
        let _importing = inner.importing.lock();
        // The next catalogue must be based on every earlier commit.
        inner.catch_up_then(|| Ok::<_, StoreError>(()))?;
        let current = inner.snapshot.load_full();
        // Validate before the limits, so that mistakes in the file are reported first.
        let next = next(&current.contents)?;
        check_limit("rules", next.rules.len(), RULES_MAX)?;
        check_limit("rows", next.rows(), ROWS_MAX)?;
        let next = Arc::new(CatalogSnapshot::new(next, inner.settings.zone));
        let difference = CatalogDiff::between(&current.contents, &next.contents);
        let replacing = Replacing {
            next: &next.contents,
            difference: &difference,
        };
        let replaced = replaced(&current, &replacing)?;
        // A commit without changes would only fill the history.
        if !dry_run && !difference.changes.is_empty() {
            let (old, new) = (Arc::clone(&current), Arc::clone(&next));
            let snapshot = Arc::clone(&inner.snapshot);
            inner
                .store
                .write(Durability::Durable, move |txn| {
                    if let Some(replaced) = replaced {
                        replaced.insert(txn)?;
                    }
                    tables::save(txn, &old.contents, &new.contents)?;
                    // Published by the commit, because requests must not see a catalogue that is not durable.
                    txn.publish(&snapshot, new);
                    Ok::<_, StoreError>(())
                })
                .wait()?;
        }
        Ok(difference)
    }
}

impl Inner {
    /// The caller holds the `importing` lock.
    fn catch_up_then<E: From<StoreError>>(
        &self,
        then: impl FnOnce() -> Result<(), E>,
    ) -> Result<bool, E> {
        let derive = || {
            let contents = self.store.read(tables::load)?;
            Ok(CatalogSnapshot::new(contents, self.settings.zone))
        };
        self.snapshot.catch_up_then(derive, then)
    }
}

struct Replacing<'a> {
    next: &'a CatalogContents,
    difference: &'a CatalogDiff,
}

fn check_limit(what: &'static str, rows: usize, limit: usize) -> Result<(), CatalogError> {
    if rows > limit {
        return Err(CatalogError::TooMany {
            what,
            rows,
            most: limit,
        });
    }
    Ok(())
}
