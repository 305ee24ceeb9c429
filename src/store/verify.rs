//! Verification of records and indexes, both ways, and the mending of indexes.

use std::collections::BTreeSet;

use super::StoreError;
use super::engine::Engine;
use super::plan::Plan;
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
    fn add(&mut self, tree: TreeName, key: &[u8]) {
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
