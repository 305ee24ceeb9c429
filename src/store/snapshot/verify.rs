//! Verification of records and indexes in both directions, of the engine against snapshot and WAL,
//! and the repair of indexes. Only short re-checks of suspected problems run on the writer thread.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::store::commit::writer::last_number;
use crate::store::engine::{Digest, Engine};
use crate::store::snapshot::compare::DifferenceCounter;
use crate::store::snapshot::format::Triple;
use crate::store::table::{IndexEntry, Schema, TableInfo, TreeName};
use crate::store::txn::Txn;
use crate::store::{Durability, Store, StoreError};

/// Maximum number of keys that a report lists; its counts are complete.
const KEYS_LISTED_MAX: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableReport {
    pub table: TreeName,
    pub records: u64,
    pub damaged: Found,
    pub missing: Found,
    pub stale: Found,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    pub count: u64,
    /// Up to a hundred, as `tree:key` with the key in hexadecimal.
    pub some: Vec<String>,
}

impl Found {
    pub(in crate::store) fn add(&mut self, tree: TreeName, key: &[u8]) {
        self.count += 1;
        // A store with a lost tree has millions of findings. The count shows that, and the first ones show where.
        if self.some.len() < KEYS_LISTED_MAX {
            self.some
                .push(format!("{tree}:{}", data_encoding::HEXLOWER.encode(key)));
        }
    }

    fn extend(&mut self, other: Self) {
        self.count += other.count;
        self.some.extend(other.some);
        self.some.truncate(KEYS_LISTED_MAX);
    }
}

impl TableReport {
    pub(in crate::store) fn new(table: TreeName) -> Self {
        Self {
            table,
            records: 0,
            damaged: Found::default(),
            missing: Found::default(),
            stale: Found::default(),
        }
    }

    #[must_use]
    pub const fn is_sound(&self) -> bool {
        self.damaged.count == 0 && self.missing.count == 0 && self.stale.count == 0
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    pub tables: Vec<TableReport>,
    pub durable_state: Option<DurableStateReport>,
}

impl Verified {
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let state = self.durable_state.as_ref();
        self.tables.iter().all(TableReport::is_sound)
            && state.is_none_or(DurableStateReport::is_sound)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DurableStateReport {
    pub snapshot: Option<u64>,
    pub number: u64,
    pub missing: Found,
    pub extra: Found,
    /// The reason why snapshot or WAL could not be read to the end.
    pub damage: Option<String>,
    pub rebuilt_from: Option<String>,
}

impl DurableStateReport {
    #[must_use]
    pub const fn is_sound(&self) -> bool {
        self.missing.count == 0 && self.extra.count == 0 && self.damage.is_none()
    }

    pub(in crate::store) fn enter(
        &mut self,
        place: (TreeName, Vec<u8>),
        expected: Option<Digest>,
        found: Option<Digest>,
    ) {
        let (tree, key) = place;
        match (expected, found) {
            (None, Some(_)) => self.extra.add(tree, &key),
            // If the engine has another value, the durable one is missing.
            (expected, found) if expected != found => self.missing.add(tree, &key),
            _ => {}
        }
    }
}

#[derive(Clone)]
enum Suspect {
    Damaged(Vec<u8>),
    Missing(IndexEntry),
    Stale(IndexEntry),
}

/// Compares each table with its indexes in the engine, and with `repair` repairs the indexes.
pub(in crate::store) fn examine_engine(
    store: &Store,
    repair: bool,
) -> Result<Vec<TableReport>, StoreError> {
    /// Checking this many takes the writer about as long as a commit.
    const AT_A_TIME: usize = 16;
    let core = &store.0.core;
    let mut reports = Vec::new();
    for table in core.schema.tables() {
        // Pending commits would be reported as problems. If the engine is stalled, the second check sees them.
        let _ = core.memtable.reach(last_number(&store.0.inbox)?);
        // The scan is outside of any transaction, so that writes continue while it runs.
        let (records, suspects) = examine(&*core.engine(), table)?;
        let mut report = TableReport {
            records,
            ..TableReport::new(table.name)
        };
        // Suspected problems are checked again in transactions, since a transaction sees one consistent
        // state. A few at a time, so that commits are not held up.
        for some in suspects.chunks(AT_A_TIME) {
            let (table, some) = (*table, some.to_vec());
            let wrong = store.write(Durability::Durable, move |txn| {
                let mut wrong = Vec::new();
                for suspect in some {
                    if is_wrong(txn, &table, &suspect, repair)? {
                        wrong.push(suspect);
                    }
                }
                Ok::<_, StoreError>(wrong)
            });
            for suspect in wrong.wait()? {
                match suspect {
                    Suspect::Damaged(key) => report.damaged.add(table.name, &key),
                    Suspect::Missing((tree, entry)) => report.missing.add(tree, &entry),
                    Suspect::Stale((tree, entry)) => report.stale.add(tree, &entry),
                }
            }
        }
        reports.push(report);
    }
    Ok(reports)
}

/// Returns the number of records, and suspected problems. They may come from concurrent changes.
fn examine(engine: &dyn Engine, table: &TableInfo) -> Result<(u64, Vec<Suspect>), StoreError> {
    let mut records = 0;
    let mut suspects = Vec::new();
    let mut wanted = BTreeSet::new();
    for pair in engine.scan(table.name, &[], None) {
        let (key, value) = pair?;
        records += 1;
        match (table.examine)(&key, &value)? {
            Some(entries) => wanted.extend(entries),
            None => suspects.push(Suspect::Damaged(key)),
        }
    }
    for tree in table.indexes {
        for pair in engine.scan(tree, &[], None) {
            let entry = (*tree, pair?.0);
            // Entries that are left at the end are missing.
            if !wanted.remove(&entry) {
                suspects.push(Suspect::Stale(entry));
            }
        }
    }
    suspects.extend(wanted.into_iter().map(Suspect::Missing));
    Ok((records, suspects))
}

/// Checks a suspected problem in a transaction, and with `repair` adds the repair to it.
fn is_wrong(
    txn: &mut Txn<'_>,
    table: &TableInfo,
    suspect: &Suspect,
    repair: bool,
) -> Result<bool, StoreError> {
    let ((tree, entry), missing) = match suspect {
        Suspect::Damaged(key) => {
            // A damaged record cannot be repaired here; a restore or its next change replaces it.
            return match txn.raw(table.name, key)? {
                Some(value) => Ok((table.examine)(key, &value)?.is_none()),
                None => Ok(false),
            };
        }
        Suspect::Missing(entry) => (entry, true),
        Suspect::Stale(entry) => (entry, false),
    };
    let is_there = txn.raw(tree, entry)?.is_some();
    let wrong = is_there != missing && is_wanted(txn, table, tree, entry)? == missing;
    if wrong && repair {
        let change = missing.then(Vec::new);
        txn.batch.set(tree, entry.clone(), change);
    }
    Ok(wrong)
}

fn is_wanted(
    txn: &Txn<'_>,
    table: &TableInfo,
    tree: TreeName,
    entry: &[u8],
) -> Result<bool, StoreError> {
    // The primary key is a suffix of the entry of unknown length, so all suffixes are tried.
    for at in 0..entry.len() {
        let key = entry.get(at..).unwrap_or_default();
        let Some(value) = txn.raw(table.name, key)? else {
            continue;
        };
        let entries = (table.examine)(key, &value)?.unwrap_or_default();
        if entries
            .iter()
            .any(|(t, e)| (*t, e.as_slice()) == (tree, entry))
        {
            return Ok(true);
        }
    }
    Ok(false)
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SnapshotReport {
    pub records: BTreeMap<TreeName, u64>,
    pub damaged: Found,
    pub unmatched: Found,
}

impl SnapshotReport {
    #[must_use]
    pub fn total(&self) -> u64 {
        self.records.values().sum()
    }

    #[must_use]
    pub fn damage(&self) -> Option<String> {
        let places = [&self.damaged.some[..], &self.unmatched.some[..]].concat();
        (!places.is_empty()).then(|| {
            format!(
                "holds {} damaged records and {} unmatched index entries: {}",
                self.damaged.count,
                self.unmatched.count,
                places.join(", ")
            )
        })
    }

    pub(in crate::store) fn check_same(&self, other: &Self, path: &Path) -> Result<(), StoreError> {
        if self.records == other.records {
            return Ok(());
        }
        let what = "has a different number of records than the backup";
        Err(StoreError::damaged_file(path, what))
    }
}

/// Checks every record of a snapshot, and its indexes in both directions, in one pass. Another pass finds out which
/// entries of a wrong index are unmatched.
pub(in crate::store) fn examine_snapshot<P: Iterator<Item = Result<Triple, StoreError>>>(
    pairs: P,
    again: impl FnOnce() -> Result<P, StoreError>,
    schema: &Schema,
) -> Result<SnapshotReport, StoreError> {
    let mut counter = DifferenceCounter::new(schema);
    for pair in pairs {
        let (tree, key, value) = pair?;
        counter.add(tree, &key, &value)?;
    }
    let (tables, matched) = counter.finish();
    let mut report = SnapshotReport::default();
    for table in tables.into_iter().filter(|table| table.records > 0) {
        report.records.insert(table.table, table.records);
        report.damaged.extend(table.damaged);
    }
    if !matched {
        report.unmatched = unmatched_entries(again()?, schema)?;
    }
    Ok(report)
}

fn unmatched_entries(
    pairs: impl Iterator<Item = Result<Triple, StoreError>>,
    schema: &Schema,
) -> Result<Found, StoreError> {
    // Entries that were seen once, either stored or derived. An intact index has every entry twice, so that the set is
    // empty at the end.
    let mut single = BTreeSet::new();
    let mut match_up = |entry| {
        if !single.remove(&entry) {
            single.insert(entry);
        }
    };
    for pair in pairs {
        let (tree, key, value) = pair?;
        match schema.tables().iter().find(|table| table.name == tree) {
            Some(table) => {
                let entries = (table.examine)(&key, &value)?.unwrap_or_default();
                entries.into_iter().for_each(&mut match_up);
            }
            None => match_up((tree, key)),
        }
    }
    let mut unmatched = Found::default();
    for (tree, key) in single {
        unmatched.add(tree, &key);
    }
    Ok(unmatched)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Index as _;
    use crate::store::tests::{ByTown, person, put, schema};

    #[test]
    fn unmatched_index_entries_of_a_snapshot_are_counted() {
        let (store, schema) = (Store::in_memory(schema()), schema());
        for key in 0..3 {
            put(&store, key, person("Lund", 30)).unwrap();
        }
        store.0.core.memtable.drain().unwrap();
        let engine = store.0.core.engine();
        let mut pairs = Vec::new();
        for tree in schema.trees() {
            for pair in engine.scan(tree, &[], None) {
                let (key, value) = pair.unwrap();
                pairs.push((tree, key, value));
            }
        }
        let examine = |pairs: &[Triple]| {
            let all = || pairs.iter().cloned().map(Ok);
            examine_snapshot(all(), || Ok(all()), &schema).unwrap()
        };
        let sound = examine(&pairs);
        assert_eq!((sound.total(), sound.damage()), (3, None));
        let at = pairs.iter().position(|(tree, ..)| *tree == ByTown::NAME);
        let (tree, mut entry, value) = pairs.remove(at.unwrap());
        assert_eq!(examine(&pairs).unmatched.count, 1);
        entry[0] ^= 1;
        pairs.push((tree, entry, value));
        let wrong = examine(&pairs);
        assert_eq!((wrong.total(), wrong.unmatched.count), (3, 2));
        // A pattern that changes no CRC-32.
        let (_, entry, _) = pairs.last_mut().unwrap();
        entry[0] ^= 1;
        let sum = crc32fast::hash(entry);
        for (byte, pattern) in entry.iter_mut().zip([0x41, 0x06, 0x71, 0xdb, 0x01]) {
            *byte ^= pattern;
        }
        assert_eq!(crc32fast::hash(entry), sum);
        assert_eq!(examine(&pairs).unmatched.count, 2);
    }
}
