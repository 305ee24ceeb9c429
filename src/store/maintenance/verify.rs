//! Verification of records and indexes of the engine in both directions, and the repair of indexes. Only short
//! re-checks of suspected problems run on the writer thread.

use std::collections::BTreeSet;

use crate::commit::writer::{Durability, last_number};
use crate::engine::{Digest, Engine};
use crate::error::StoreError;
use crate::handle::Store;
use crate::snapshot::examine::{Found, TableReport};
use crate::table::{IndexEntry, TableInfo, TreeName};
use crate::txn::Txn;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    pub tables: Vec<TableReport>,
    pub durable_state: Option<DurableStateReport>,
}

impl Verified {
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
    pub const fn is_sound(&self) -> bool {
        self.missing.count == 0 && self.extra.count == 0 && self.damage.is_none()
    }

    pub(crate) fn enter(
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
pub(crate) fn examine_engine(store: &Store, repair: bool) -> Result<Vec<TableReport>, StoreError> {
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
