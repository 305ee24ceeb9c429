//! What an operator does for a store: compare, mend, make smaller, take out, bring in, take forward.

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::portable::{self, Exported, Imported};
use super::snapshot::{Snapshot, SnapshotHead};
use super::table::Schema;
use super::verify::{self, TableReport, TruthReport};
use super::{Durability, Options, Store, StoreError, compaction, keeper};

/// Writes every record of a snapshot, be it a base or a backup, as a line of text.
///
/// # Errors
/// That it cannot be written, or that the snapshot is damaged.
pub fn export_snapshot(
    path: &Path,
    schema: &Schema,
    out: &mut dyn Write,
) -> Result<Exported, StoreError> {
    let snapshot = Snapshot::open(path, schema)?;
    let instance = snapshot.head().instance;
    portable::write(snapshot, schema, instance, out)
}

impl Store {
    /// Compares records and indexes, both ways, while no write runs.
    ///
    /// # Errors
    /// That the engine failed.
    pub fn verify(&self) -> Result<Vec<TableReport>, StoreError> {
        self.between(|writer| {
            writer.core.tail.drain()?;
            verify::verify(&*writer.core.engine(), &writer.core.schema)
        })
    }

    /// Compares the engine with base and log, while no write runs; nothing for a store in memory.
    ///
    /// # Errors
    /// That the engine failed.
    pub fn verify_truth(&self) -> Result<Option<TruthReport>, StoreError> {
        let Some(disk) = &self.0.core.disk else {
            return Ok(None);
        };
        // Held here, so that the writer waits for nobody.
        let guard = disk.base.lock();
        let base = guard.clone();
        self.between(move |writer| {
            let core = &writer.core;
            core.tail.drain()?;
            verify::compare(core, &*core.engine(), base.as_ref(), writer.number).map(Some)
        })
    }

    /// Makes the indexes right again; reports what was wrong.
    ///
    /// # Errors
    /// That the engine failed, or the commit.
    pub fn rebuild(&self) -> Result<Vec<TableReport>, StoreError> {
        let schema = self.0.core.schema.clone();
        let core = Arc::clone(&self.0.core);
        self.write(Durability::Durable, move |txn| {
            core.tail.drain()?;
            verify::mend(txn, &schema)
        })
        .wait()
    }

    /// Syncs the engine and retires the log segments that neither it nor the base needs.
    ///
    /// # Errors
    /// That a sync failed.
    pub fn checkpoint(&self) -> Result<(), StoreError> {
        keeper::checkpoint(&self.0.core)
    }

    /// Makes everything that was committed so far part of the base, and proves it.
    ///
    /// # Errors
    /// That there is no space, or that something is damaged.
    pub fn renew_base(&self) -> Result<SnapshotHead, StoreError> {
        keeper::renew_whole(&self.0.core, &self.0.inbox, (self.0.clock)())
    }

    /// Makes the engine anew beside the one that serves, and changes over: what the old one held on to
    /// is free again. Says how many bytes the files took before and after.
    ///
    /// # Errors
    /// [`StoreError::Full`], or that something is damaged.
    pub fn compact(&self) -> Result<(u64, u64), StoreError> {
        compaction::compact(&self.0.core, &self.0.inbox, (self.0.clock)())
    }

    /// The file of a new base, which has everything that was committed so far. It goes with the next
    /// one; who has it open keeps it.
    ///
    /// # Errors
    /// As [`Store::renew_base`].
    pub fn base_file(&self) -> Result<PathBuf, StoreError> {
        let disk = self.0.core.disk.as_ref().ok_or(StoreError::Closed)?;
        Ok(disk.base_path(self.renew_base()?.number))
    }

    /// Brings in the records of an export, and makes their indexes.
    ///
    /// # Errors
    /// [`StoreError::NotEmpty`], or that it is no export; damaged lines are skipped and reported.
    pub fn import(&self, input: &mut dyn BufRead) -> Result<Imported, StoreError> {
        const BATCH: usize = 256 * 1024;
        let schema = &self.0.core.schema;
        let empty = self.read(|txn| {
            let mut tables = schema.tables().iter();
            tables.try_fold(true, |empty, table| {
                Ok::<_, StoreError>(empty && txn.pairs(table.name, &[], None, 1)?.is_empty())
            })
        })?;
        if !empty {
            return Err(StoreError::NotEmpty);
        }
        portable::read(input, schema, BATCH, &mut |plan| {
            self.write(Durability::Durable, move |txn| {
                txn.plan = plan;
                Ok::<_, StoreError>(())
            })
            .wait()
        })
    }

    /// Takes the steps that lead to the format of the schema; says whether there were any. From the
    /// first one on no older version opens the store, and the backup is its way back.
    pub(super) fn upgrade(&self, options: &Options) -> Result<bool, StoreError> {
        let core = &self.0.core;
        let Some(disk) = &core.disk else {
            return Ok(false);
        };
        let (place, mut identity) = (&disk.place, disk.identity);
        let format = core.schema.format();
        if identity.reached >= format {
            return Ok(false);
        }
        if identity.format < format {
            // A directory that is not there may be on a disk that is not mounted: no reason to stay
            // with the old format, and none to fill the mount point.
            let aside = place.aside();
            let backups = options.backups.as_deref().filter(|path| path.is_dir());
            let backup = self.back_up(backups.unwrap_or(&aside))?;
            tracing::info!(backup = %backup.path.display(), format, "the store is upgraded");
            identity.format = format;
            place.identify(identity)?;
        }
        for (to, step) in core.schema.steps_from(identity.reached) {
            step(self)?;
            identity.reached = to;
            place.identify(identity)?;
        }
        Ok(true)
    }
}
