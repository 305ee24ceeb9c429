//! Verification of records and indexes, both ways, and the mending of indexes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::StoreError;
use super::core::Core;
use super::engine::Engine;
use super::keeper;
use super::plan::Plan;
use super::snapshot::{SnapshotHead, Triple};
use super::table::{Schema, TableInfo, TreeName};
use super::txn::Txn;

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
    /// Whether nothing is wrong.
    #[must_use]
    pub const fn is_sound(&self) -> bool {
        self.damaged.count == 0 && self.missing.count == 0 && self.stale.count == 0
    }
}

/// Examines every table. The caller keeps writes away meanwhile.
pub(super) fn verify(engine: &dyn Engine, schema: &Schema) -> Result<Vec<TableReport>, StoreError> {
    schema
        .tables()
        .iter()
        .map(|table| examine(engine, table, &mut |_, _, _| {}))
        .collect()
}

/// What the engine holds other than base and log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TruthReport {
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
}

impl TruthReport {
    /// Whether both are the same.
    #[must_use]
    pub const fn is_sound(&self) -> bool {
        self.missing.count == 0 && self.extra.count == 0 && self.damage.is_none()
    }
}

/// Compares the engine, which has been brought forward, with base and log.
pub(super) fn compare(
    core: &Core,
    engine: &dyn Engine,
    base: Option<&SnapshotHead>,
    number: u64,
) -> Result<TruthReport, StoreError> {
    let mut report = TruthReport {
        base: base.map(|base| base.number),
        number,
        ..TruthReport::default()
    };
    let mut differ = || {
        let mut pairs = keeper::truth(core, base, number)?.pairs()?.peekable();
        let mut trees: Vec<_> = core.schema.trees().collect();
        trees.sort_unstable();
        for tree in trees {
            for found in engine.scan(tree, &[], None) {
                let (key, value) = found?;
                while let Some(pair) =
                    pairs.next_if(|pair| matches!(pair, Ok((t, k, _)) if (*t, k) < (tree, &key)))
                {
                    let (tree, key, _) = pair?;
                    report.missing.add(tree, &key);
                }
                match pairs
                    .next_if(|pair| !matches!(pair, Ok((t, k, _)) if (*t, k) != (tree, &key)))
                {
                    Some(pair) => {
                        if pair?.2 != value {
                            report.missing.add(tree, &key);
                        }
                    }
                    None => report.extra.add(tree, &key),
                }
            }
        }
        for pair in pairs {
            let (tree, key, _) = pair?;
            report.missing.add(tree, &key);
        }
        Ok(())
    };
    match differ() {
        Err(StoreError::Damaged { place, what }) => {
            report.damage = Some(format!("{place}: {what}"))
        }
        other => other?,
    }
    Ok(report)
}

/// Plans what makes the indexes of every table right again.
pub(super) fn mend(txn: &mut Txn<'_>, schema: &Schema) -> Result<Vec<TableReport>, StoreError> {
    let mut plan = Plan::default();
    let reports = schema
        .tables()
        .iter()
        .map(|table| {
            examine(txn.engine, table, &mut |tree, entry, wanted| {
                plan.set(tree, entry.to_vec(), wanted.then(Vec::new));
            })
        })
        .collect();
    txn.plan = plan;
    reports
}

/// Compares one table with its indexes; `mend` is told each entry that is wrong, and whether it is
/// wanted.
fn examine(
    engine: &dyn Engine,
    table: &TableInfo,
    mend: &mut dyn FnMut(TreeName, &[u8], bool),
) -> Result<TableReport, StoreError> {
    let mut report = TableReport {
        table: table.name,
        records: 0,
        damaged: Found::default(),
        missing: Found::default(),
        stale: Found::default(),
    };
    let mut wanted = BTreeSet::new();
    for pair in engine.scan(table.name, &[], None) {
        let (key, value) = pair?;
        report.records += 1;
        match (table.examine)(&key, &value) {
            Some(entries) => wanted.extend(entries),
            None => report.damaged.add(table.name, &key),
        }
    }
    for tree in table.indexes {
        for pair in engine.scan(tree, &[], None) {
            let (entry, _) = pair?;
            let entry = (*tree, entry);
            if !wanted.remove(&entry) {
                report.stale.add(entry.0, &entry.1);
                mend(entry.0, &entry.1, false);
            }
        }
    }
    for (tree, entry) in wanted {
        report.missing.add(tree, &entry);
        mend(tree, &entry, true);
    }
    Ok(report)
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
