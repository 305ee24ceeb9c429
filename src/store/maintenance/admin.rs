//! Maintenance operations for operators: verify, repair, compact, export, import, upgrade.

use std::io::{BufRead, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use crate::store::files::{remove_file, replace_file};
use crate::store::maintenance::dump::{self, Exported, Imported};
use crate::store::maintenance::{compaction, disk_space, new_snapshot, thread};
use crate::store::recovery::layout::StoreLayout;
use crate::store::snapshot::compare;
use crate::store::snapshot::format::{Snapshot, SnapshotHead};
use crate::store::snapshot::verify::{self, TableReport, Verified};
use crate::store::table::{Schema, TreeName};
use crate::store::{Durability, Options, Store, StoreError};

/// An open snapshot, which stays readable after a newer one replaces it.
pub struct SnapshotExport(Snapshot);

impl SnapshotExport {
    pub fn open(path: &Path, schema: &Schema) -> Result<Self, StoreError> {
        Snapshot::open(path, schema).map(Self)
    }

    pub fn write(self, schema: &Schema, out: &mut dyn Write) -> Result<Exported, StoreError> {
        let instance = self.0.head().instance;
        dump::write(self.0, schema, instance, out)
    }
}

pub struct Import<'a> {
    pub directory: &'a Path,
    pub schema: &'a Schema,
    pub options: Options,
    pub bytes: Option<u64>,
    /// Tables that a service fills by itself. A store with records only in these counts as empty.
    pub own: &'a [TreeName],
}

impl Import<'_> {
    /// Imports the records into a staged store and installs it once it is complete. After a kill there
    /// is either the empty store or the whole import. Damaged lines are skipped and reported.
    pub fn run(self, input: &mut dyn BufRead) -> Result<Imported, StoreError> {
        /// Upper bound: WAL, engine and snapshot each hold all records, in less space than the
        /// text.
        const SPACE_FACTOR: u64 = 3;
        // The store is opened first: one that is newer, in use or not empty is rejected before anything is written.
        let store = Store::open(self.directory, self.schema.clone(), self.options.clone())?;
        store.must_be_empty(self.own)?;
        let instance = store.instance().ok_or(StoreError::Closed)?;
        drop(store);
        let layout = StoreLayout::new(self.directory, self.options.sync);
        let _lock = layout.lock()?;
        if let Some(bytes) = self.bytes {
            disk_space::require_free(self.directory, SPACE_FACTOR * bytes)?;
        }
        // An earlier import may have been interrupted.
        layout.clear_staged()?;
        let staged = layout.staged();
        let imported = self.fill(&staged, instance, input).and_then(|imported| {
            layout.mark_staged_complete()?;
            Ok(imported)
        });
        match imported {
            Ok(imported) => {
                // The complete store replaces the empty one; before this point nothing has changed.
                layout.install_staged()?;
                Ok(imported)
            }
            Err(error) => {
                let _ = layout.clear_staged();
                Err(error)
            }
        }
    }

    fn fill(
        &self,
        staged: &StoreLayout,
        instance: [u8; 16],
        input: &mut dyn BufRead,
    ) -> Result<Imported, StoreError> {
        let options = Options {
            instance,
            // The seed must differ from that of the empty store, which may have been created just now.
            timeline: self.options.timeline.map(|byte| !byte),
            // Backups of the directory's store do not belong to the imported one.
            backups: None,
            ..self.options.clone()
        };
        let store = Store::open(staged.directory(), self.schema.clone(), options)?;
        let imported = store.import(input)?;
        store.checkpoint()?;
        Ok(imported)
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
        thread::checkpoint(&self.0.core)
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

    fn must_be_empty(&self, own: &[TreeName]) -> Result<(), StoreError> {
        let empty = self.read(|txn| {
            let tables = self.0.core.schema.tables().iter();
            let mut tables = tables.filter(|table| !own.contains(&table.name));
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

    pub(in crate::store) fn import(&self, input: &mut dyn BufRead) -> Result<Imported, StoreError> {
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

    /// Runs the upgrade steps to the format of the schema; returns whether there were any. After the
    /// first step older versions cannot open the store; a downgrade needs the backup made before it.
    pub(in crate::store) fn upgrade(&self, options: &Options) -> Result<bool, StoreError> {
        let core = &self.0.core;
        let Some(disk) = &core.disk else {
            return Ok(false);
        };
        let (layout, mut identity) = (&disk.layout, disk.identity.clone());
        let format = core.schema.format();
        if identity.reached >= format {
            return Ok(false);
        }
        if identity.format < format {
            // A missing backup directory may be on a disk that is not mounted. The backup must not fill the mount
            // point, so it is written to `aside/`.
            let aside = layout.aside();
            let backups = options.backups.as_deref().filter(|path| path.is_dir());
            let backup = self.back_up(backups.unwrap_or(&aside))?;
            tracing::info!(backup = %backup.path.display(), format, "upgrading the store; wrote a backup first");
            let path = backup.path.as_os_str().as_bytes();
            replace_file(&layout.upgrade_backup(), path, layout.sync)?;
            // The format changes before the steps: an older version must not open a store that is half upgraded.
            identity.format = format;
            layout.write_identity(&identity)?;
        }
        for (to, step) in core.schema.steps_from(identity.reached) {
            step(self)?;
            // Progress is recorded after each step, so that an interrupted upgrade continues where it ended.
            identity.reached = to;
            layout.write_identity(&identity)?;
        }
        Ok(true)
    }
}
