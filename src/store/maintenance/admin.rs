//! Maintenance operations for operators: verify, repair, compact, export, import, upgrade.

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use crate::commit::writer::Durability;
use crate::error::StoreError;
use crate::handle::Store;
use crate::maintenance::checkpoint::checkpoint;
use crate::maintenance::dump::{self, Exported, Imported};
use crate::maintenance::verify::{self, Verified};
use crate::maintenance::{compaction, compare, new_snapshot};
use crate::snapshot::examine::TableReport;
use crate::snapshot::format::{Snapshot, SnapshotHead};
use crate::table::{Tables, TreeName};
use playgate_process::files::remove_file;

/// An open snapshot, which stays readable after a newer one replaces it.
pub struct SnapshotExport(Snapshot);

impl SnapshotExport {
    pub fn open(path: &Path, schema: &Tables) -> Result<Self, StoreError> {
        Snapshot::open(path, schema).map(Self)
    }

    pub fn write(self, schema: &Tables, out: &mut dyn Write) -> Result<Exported, StoreError> {
        let instance = self.0.head().instance;
        dump::write(self.0, schema, instance, out)
    }
}

impl Store {
    /// Compares records and indexes in both directions, and the engine with snapshot and WAL, while
    /// commits continue.
    pub fn verify(&self) -> Result<Verified, StoreError> {
        let core = &self.0.core;
        // Until then snapshot and WAL answer reads, and comparing them with themselves would prove nothing.
        core.engine().wait_until_ready()?;
        let state = match &core.disk {
            Some(disk) => {
                let (tables, state, matched) =
                    compare::against_durable_state(core, disk, &self.0.inbox)?;
                // Concurrent commits can cause differences. The slower examination below distinguishes them from damage.
                if matched && state.is_sound() && tables.iter().all(TableReport::is_sound) {
                    let state = Some(state);
                    return Ok(Verified {
                        tables,
                        durable_state: state,
                    });
                }
                Some(state)
            }
            None => None,
        };
        let tables = verify::examine_engine(self, false)?;
        Ok(Verified {
            tables,
            durable_state: state,
        })
    }

    pub fn rebuild(&self) -> Result<Vec<TableReport>, StoreError> {
        self.0.core.engine().wait_until_ready()?;
        verify::examine_engine(self, true)
    }

    /// Syncs the engine and retires the WAL segments that neither it nor the snapshot needs.
    pub fn checkpoint(&self) -> Result<(), StoreError> {
        checkpoint(&self.0.core)
    }

    pub fn write_snapshot(&self) -> Result<SnapshotHead, StoreError> {
        let core = &self.0.core;
        core.or_fail(new_snapshot::with_all_commits(
            core,
            &self.0.inbox,
            (self.0.clock)(),
        ))
    }

    /// Builds a new engine while the old one is in use, and switches to it, which frees unused space.
    /// Returns the size in bytes before and after.
    pub fn compact(&self) -> Result<(u64, u64), StoreError> {
        let core = &self.0.core;
        core.or_fail(compaction::compact(core, &self.0.inbox, (self.0.clock)()))
    }

    /// Writes a new snapshot and returns its path. The next snapshot removes the file; an open handle
    /// stays valid.
    pub fn snapshot_file(&self) -> Result<PathBuf, StoreError> {
        let disk = self.0.core.disk.as_ref().ok_or(StoreError::Closed)?;
        Ok(disk.snapshot_path(self.write_snapshot()?.number))
    }

    pub(crate) fn must_be_empty(&self, ignored: &[TreeName]) -> Result<(), StoreError> {
        let empty = self.read(|txn| {
            let tables = self.0.core.schema.tables().iter();
            let mut tables = tables.filter(|table| !ignored.contains(&table.name));
            tables.try_fold(true, |empty, table| {
                Ok::<_, StoreError>(empty && txn.pairs(table.name, &[], None, 1)?.is_empty())
            })
        })?;
        if empty {
            Ok(())
        } else {
            Err(StoreError::NotEmpty)
        }
    }

    pub(crate) fn import(&self, input: &mut dyn BufRead) -> Result<Imported, StoreError> {
        const BATCH: usize = 256 * 1024;
        self.must_be_empty(&[])?;
        let schema = &self.0.core.schema;
        dump::read(input, schema, BATCH, &mut |batch| {
            // Durable commits bound the memory use: the next batch is read once this one is on disk.
            self.write(Durability::Durable, move |txn| {
                txn.batch = batch;
                Ok::<_, StoreError>(())
            })
            .wait()
        })
    }

    /// Ends the time in which a format upgrade can be reversed. Called before the first change of a client is answered:
    /// the backup of the upgrade lacks this change, so the package must not restore it. Later calls cost nothing.
    pub fn finalize_upgrade(&self) -> Result<(), StoreError> {
        let Some(disk) = &self.0.core.disk else {
            return Ok(());
        };
        if disk.upgrade_is_reversible.load(Ordering::Acquire) {
            remove_file(&disk.layout.upgrade_backup(), disk.layout.sync)?;
            disk.upgrade_is_reversible.store(false, Ordering::Release);
        }
        Ok(())
    }
}
