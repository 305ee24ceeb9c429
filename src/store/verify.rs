//! Verification of records and indexes, both ways, of the engine against base and log, and the mending
//! of indexes. Nothing of it runs on the writer thread but short looks at what seems to be wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::engine::{Digest, Engine};
use super::snapshot::Triple;
use super::table::{Entry, Schema, TableInfo, TreeName};
use super::txn::Txn;
use super::writer::last_number;
use super::{Durability, Store, StoreError};

/// How many places a report names of each kind; the counts are whole.
const NAMED: usize = 100;

/// What verification found in one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableReport {
    /// The table.
    pub table: TreeName,
    /// The records that were read.
    pub records: u64,
    /// Records that are damaged: how many, and the keys of some in hexadecimal.
    pub damaged: Found,
    /// Index entries that a record should have and has not.
    pub missing: Found,
    /// Index entries that no record has.
    pub stale: Found,
}

/// A count, and some of what was counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// How many.
    pub count: u64,
    /// Up to a hundred of them, as `tree:key in hexadecimal`.
    pub some: Vec<String>,
}

impl Found {
    pub(super) fn add(&mut self, tree: TreeName, key: &[u8]) {
        self.count += 1;
        if self.some.len() < NAMED {
            self.some
                .push(format!("{tree}:{}", data_encoding::HEXLOWER.encode(key)));
        }
    }
}

impl TableReport {
    pub(super) fn new(table: TreeName) -> Self {
        Self {
            table,
            records: 0,
            damaged: Found::default(),
            missing: Found::default(),
            stale: Found::default(),
        }
    }

    /// Whether nothing is wrong.
    #[must_use]
    pub const fn is_sound(&self) -> bool {
        self.damaged.count == 0 && self.missing.count == 0 && self.stale.count == 0
    }
}

/// Everything that verification found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Each table with its indexes.
    pub tables: Vec<TableReport>,
    /// The engine against base and log; none of a store in memory.
    pub truth: Option<DurableStateReport>,
}

/// What the engine holds other than base and log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DurableStateReport {
    /// The commit that the base was made after; none if the log has everything.
    pub base: Option<u64>,
    /// The last commit.
    pub number: u64,
    /// Pairs that base and log have and the engine has not, or has otherwise.
    pub missing: Found,
    /// Pairs that the engine alone has.
    pub extra: Found,
    /// Why base and log could not be read to their end.
    pub damage: Option<String>,
    /// What the engine was rebuilt from when the store was opened, if it was.
    pub rebuilt_from: Option<String>,
}

impl DurableStateReport {
    /// Whether both are the same.
    #[must_use]
    pub const fn is_sound(&self) -> bool {
        self.missing.count == 0 && self.extra.count == 0 && self.damage.is_none()
    }

    pub(super) fn enter(
        &mut self,
        place: (TreeName, Vec<u8>),
        expected: Option<Digest>,
        found: Option<Digest>,
    ) {
        let (tree, key) = place;
        match (expected, found) {
            (None, Some(_)) => self.extra.add(tree, &key),
            (expected, found) if expected != found => self.missing.add(tree, &key),
            _ => {}
        }
    }
}

/// Something that looked wrong in an engine that moves.
#[derive(Clone)]
enum Suspect {
    Damaged(Vec<u8>),
    Missing(Entry),
    Stale(Entry),
}

/// Compares each table with its indexes in the engine itself, as it is. What looks wrong is looked at
/// again in a plan, some of it at a time: a plan sees one moment. With `mend` the plan makes it right.
pub(super) fn examine_engine(store: &Store, mend: bool) -> Result<Vec<TableReport>, StoreError> {
    /// A few of these take the writer about as long as a commit.
    const AT_A_TIME: usize = 16;
    let core = &store.0.core;
    let mut reports = Vec::new();
    for table in core.schema.tables() {
        // What waits for the engine would look wrong. If it takes nothing, that is looked at again.
        let _ = core.tail.reach(last_number(&store.0.inbox)?);
        let (records, suspects) = examine(&*core.engine(), table)?;
        let mut report = TableReport {
            records,
            ..TableReport::new(table.name)
        };
        for some in suspects.chunks(AT_A_TIME) {
            let (table, some) = (*table, some.to_vec());
            let wrong = store.write(Durability::Durable, move |txn| {
                let mut wrong = Vec::new();
                for suspect in some {
                    if is_wrong(txn, &table, &suspect, mend)? {
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

/// What looks wrong in a table and its indexes, which may change meanwhile; and how many records there
/// are.
fn examine(engine: &dyn Engine, table: &TableInfo) -> Result<(u64, Vec<Suspect>), StoreError> {
    let mut records = 0;
    let mut suspects = Vec::new();
    let mut wanted = BTreeSet::new();
    for pair in engine.scan(table.name, &[], None) {
        let (key, value) = pair?;
        records += 1;
        match (table.examine)(&key, &value) {
            Some(entries) => wanted.extend(entries),
            None => suspects.push(Suspect::Damaged(key)),
        }
    }
    for tree in table.indexes {
        for pair in engine.scan(tree, &[], None) {
            let entry = (*tree, pair?.0);
            if !wanted.remove(&entry) {
                suspects.push(Suspect::Stale(entry));
            }
        }
    }
    suspects.extend(wanted.into_iter().map(Suspect::Missing));
    Ok((records, suspects))
}

/// Whether something that looked wrong is wrong now; with `mend` it is planned to be right.
fn is_wrong(
    txn: &mut Txn<'_>,
    table: &TableInfo,
    suspect: &Suspect,
    mend: bool,
) -> Result<bool, StoreError> {
    let ((tree, entry), missing) = match suspect {
        Suspect::Damaged(key) => {
            let value = txn.raw(table.name, key)?;
            return Ok(value.is_some_and(|value| (table.examine)(key, &value).is_none()));
        }
        Suspect::Missing(entry) => (entry, true),
        Suspect::Stale(entry) => (entry, false),
    };
    let is_there = txn.raw(tree, entry)?.is_some();
    let wrong = is_there != missing && is_wanted(txn, table, tree, entry)? == missing;
    if wrong && mend {
        let change = missing.then(Vec::new);
        txn.plan.set(tree, entry.clone(), change);
    }
    Ok(wrong)
}

/// Whether a record should have an index entry. Its key is what the entry ends in, and nothing says
/// how long that is.
fn is_wanted(
    txn: &Txn<'_>,
    table: &TableInfo,
    tree: TreeName,
    entry: &[u8],
) -> Result<bool, StoreError> {
    for at in 0..entry.len() {
        let key = entry.get(at..).unwrap_or_default();
        let Some(value) = txn.raw(table.name, key)? else {
            continue;
        };
        let entries = (table.examine)(key, &value).unwrap_or_default();
        if entries
            .iter()
            .any(|(t, e)| (*t, e.as_slice()) == (tree, entry))
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What a snapshot holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SnapshotReport {
    /// The records of each table.
    pub records: BTreeMap<TreeName, u64>,
    /// Records that are damaged.
    pub damaged: Found,
    /// Index entries without their record, or records without their entry.
    pub unmatched: Found,
}

impl SnapshotReport {
    /// The records of all tables.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.records.values().sum()
    }

    /// What is wrong, if anything is.
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

    /// Whether another snapshot holds as much.
    pub(super) fn same(&self, other: &Self, path: &Path) -> Result<(), StoreError> {
        if self.records == other.records {
            return Ok(());
        }
        Err(StoreError::Damaged {
            place: path.display().to_string(),
            what: "holds another number of records than the backup".to_owned(),
        })
    }
}

/// Examines every record of a snapshot, and its indexes both ways, in one pass.
pub(super) fn examine_snapshot(
    pairs: impl Iterator<Item = Result<Triple, StoreError>>,
    schema: &Schema,
) -> Result<SnapshotReport, StoreError> {
    let mut report = SnapshotReport::default();
    // Entries that were found or made, until the other comes: in a sound snapshot none is left.
    let mut single = BTreeSet::new();
    let mut match_up = |entry| {
        if !single.remove(&entry) {
            single.insert(entry);
        }
    };
    for pair in pairs {
        let (tree, key, value) = pair?;
        let Some(table) = schema.tables().iter().find(|table| table.name == tree) else {
            match_up((tree, key));
            continue;
        };
        *report.records.entry(tree).or_default() += 1;
        match (table.examine)(&key, &value) {
            Some(entries) => entries.into_iter().for_each(&mut match_up),
            None => report.damaged.add(tree, &key),
        }
    }
    for (tree, key) in single {
        report.unmatched.add(tree, &key);
    }
    Ok(report)
}
