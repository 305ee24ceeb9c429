//! Examines every record of a snapshot, and its indexes in both directions.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;

use crate::error::StoreError;
use crate::layout::check_format;
use crate::snapshot::format::{Snapshot, SnapshotHead, Triple};
use crate::table::{Tables, TreeName};

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
    pub(crate) fn add(&mut self, tree: TreeName, key: &[u8]) {
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
    pub(crate) fn new(table: TreeName) -> Self {
        Self {
            table,
            records: 0,
            damaged: Found::default(),
            missing: Found::default(),
            stale: Found::default(),
        }
    }

    pub const fn is_sound(&self) -> bool {
        self.damaged.count == 0 && self.missing.count == 0 && self.stale.count == 0
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SnapshotReport {
    pub records: BTreeMap<TreeName, u64>,
    pub damaged: Found,
    pub unmatched: Found,
}

impl SnapshotReport {
    pub fn total(&self) -> u64 {
        self.records.values().sum()
    }

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

    pub(crate) fn check_same(&self, other: &Self, path: &Path) -> Result<(), StoreError> {
        if self.records == other.records {
            return Ok(());
        }
        let what = "has a different number of records than the backup";
        Err(StoreError::damaged_file(path, what))
    }
}

/// The number of index entries, and the sum of their hashes under a random key. The entries of one index are unique, so
/// equal sums mean equal sets, with a probability of error of 2^-64. A sum of CRC-32 checksums would miss a changed entry
/// with 2^-32, and always with some patterns of five bytes, which the checksums of frames in snapshot and WAL miss too.
type EntrySum = (u64, u64);

/// Counts the records of a consistent stream of pairs, and sums up expected and actual index
/// entries. It detects that an index is wrong; `verify` finds out where.
pub(crate) struct DifferenceCounter<'a> {
    schema: &'a Tables,
    tables: Vec<TableReport>,
    hasher: RandomState,
    wanted: BTreeMap<TreeName, EntrySum>,
    found: BTreeMap<TreeName, EntrySum>,
}

impl<'a> DifferenceCounter<'a> {
    pub(crate) fn new(schema: &'a Tables) -> Self {
        let tables = schema.tables().iter();
        Self {
            schema,
            tables: tables.map(|table| TableReport::new(table.name)).collect(),
            hasher: RandomState::new(),
            wanted: BTreeMap::new(),
            found: BTreeMap::new(),
        }
    }

    pub(crate) fn add(
        &mut self,
        tree: TreeName,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), StoreError> {
        let mut tables = self.schema.tables().iter().zip(&mut self.tables);
        let Some((table, report)) = tables.find(|(table, _)| table.name == tree) else {
            add_entry(&mut self.found, &self.hasher, tree, key);
            return Ok(());
        };
        report.records += 1;
        match (table.examine)(key, value)? {
            Some(entries) => {
                for (tree, entry) in entries {
                    // Sums instead of sets, so that the memory use is constant.
                    add_entry(&mut self.wanted, &self.hasher, tree, &entry);
                }
            }
            None => report.damaged.add(tree, key),
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> (Vec<TableReport>, bool) {
        let matched = self.wanted == self.found;
        (self.tables, matched)
    }
}

fn add_entry(
    sums: &mut BTreeMap<TreeName, EntrySum>,
    hasher: &RandomState,
    tree: TreeName,
    entry: &[u8],
) {
    let (count, sum) = sums.entry(tree).or_default();
    *count += 1;
    // A sum, because expected and actual entries come in different orders.
    *sum = sum.wrapping_add(hasher.hash_one(entry));
}

/// Checks every record of a snapshot, and its indexes in both directions, in one pass. Another pass finds out which
/// entries of a wrong index are unmatched.
pub(crate) fn examine_snapshot<P: Iterator<Item = Result<Triple, StoreError>>>(
    pairs: P,
    again: impl FnOnce() -> Result<P, StoreError>,
    schema: &Tables,
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
    schema: &Tables,
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

/// Reads a snapshot to its end and checks frames, order, checksums, every record, and the indexes
/// in both directions.
pub fn check_snapshot(
    path: &Path,
    schema: &Tables,
) -> Result<(SnapshotHead, SnapshotReport), StoreError> {
    let snapshot = Snapshot::open(path, schema)?;
    let head = snapshot.head().clone();
    check_format(head.format, schema.format())?;
    let report = examine_snapshot(snapshot, || Snapshot::open(path, schema), schema)?;
    // Backups carry the record count of their source, so that a truncated copy is found.
    let count = head.records.filter(|records| *records != report.total());
    let what = match count {
        Some(records) => Some(format!(
            "contains {} records, but its head says {records}",
            report.total()
        )),
        None => report.damage(),
    };
    match what {
        None => Ok((head, report)),
        Some(what) => Err(StoreError::damaged_file(path, what)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handle::Store;
    use crate::table::Index as _;
    use crate::tests::{ByTown, person, put, schema};

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
