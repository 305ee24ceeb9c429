//! What an operator does for a store: compare, mend, make smaller, take out, bring in, take forward.

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};

use super::portable::{self, Exported, Imported};
use super::snapshot::{Snapshot, SnapshotHead};
use super::table::Schema;
use super::verify::{self, TableReport, Verified};
use super::{Durability, Options, Store, StoreError, compaction, compare, keeper};

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
    /// Compares records and indexes, both ways, and the engine with base and log, while commits go on.
    ///
    /// # Errors
    /// That the engine failed.
    pub fn verify(&self) -> Result<Verified, StoreError> {
        let core = &self.0.core;
        core.engine().wait_until_ready()?;
        let truth = match &core.disk {
            Some(disk) => {
                let (tables, truth, matched) = compare::against_truth(core, disk, &self.0.inbox)?;
                if matched && truth.is_sound() && tables.iter().all(TableReport::is_sound) {
                    let truth = Some(truth);
                    return Ok(Verified { tables, truth });
                }
                Some(truth)
            }
            None => None,
        };
        let tables = verify::examine_engine(self, false)?;
        Ok(Verified { tables, truth })
    }

    /// Makes the indexes right again; reports what was wrong. Commits go on.
    ///
    /// # Errors
    /// That the engine failed, or a commit.
    pub fn rebuild(&self) -> Result<Vec<TableReport>, StoreError> {
        self.0.core.engine().wait_until_ready()?;
        verify::examine_engine(self, true)
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
        let core = &self.0.core;
        core.or_fail(keeper::renew_whole(core, &self.0.inbox, (self.0.clock)()))
    }

    /// Makes the engine anew beside the one that serves, and changes over: what the old one held on to
    /// is free again. Says how many bytes the files took before and after.
    ///
    /// # Errors
    /// [`StoreError::Full`], or that something is damaged.
    pub fn compact(&self) -> Result<(u64, u64), StoreError> {
        let core = &self.0.core;
        core.or_fail(compaction::compact(core, &self.0.inbox, (self.0.clock)()))
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
