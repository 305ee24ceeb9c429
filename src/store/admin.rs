//! What an operator does for a store: compare, mend, make smaller, take out, bring in, take forward.

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};

use super::dump::{self, Exported, Imported};
use super::layout::StoreLayout;
use super::snapshot::{Snapshot, SnapshotHead};
use super::table::{Schema, TreeName};
use super::verify::{self, TableReport, Verified};
use super::{Durability, Options, Store, StoreError, compaction, compare, disk_space, maintenance};

/// A snapshot, be it a base or a backup, whose records are written as lines of text. Once it is open
/// it stays readable, even when a new base takes its place.
pub struct SnapshotExport(Snapshot);

impl SnapshotExport {
    /// Opens the file.
    ///
    /// # Errors
    /// That it is not there, or damaged.
    pub fn open(path: &Path, schema: &Schema) -> Result<Self, StoreError> {
        Snapshot::open(path, schema).map(Self)
    }

    /// Writes every record.
    ///
    /// # Errors
    /// That it cannot be written, or that the snapshot is damaged.
    pub fn write(self, schema: &Schema, out: &mut dyn Write) -> Result<Exported, StoreError> {
        let instance = self.0.head().instance;
        dump::write(self.0, schema, instance, out)
    }
}

/// An export that becomes the store of a data directory.
pub struct Import<'a> {
    /// The data directory.
    pub directory: &'a Path,
    /// The tables.
    pub schema: &'a Schema,
    /// How the store of the directory is opened.
    pub options: Options,
    /// The length of the export, where it is known.
    pub bytes: Option<u64>,
    /// Tables that a service fills by itself: a store with records in these alone counts as empty.
    pub own: &'a [TreeName],
}

impl Import<'_> {
    /// Brings the records of an export into a store beside that of the directory, which must be empty,
    /// and puts it into place once it is whole: a kill leaves the empty store or the whole import.
    ///
    /// # Errors
    /// [`StoreError::NotEmpty`], or that it is no export; damaged lines are skipped and reported.
    pub fn run(self, input: &mut dyn BufRead) -> Result<Imported, StoreError> {
        /// Records take less space in files than as text; log, engine and base hold them at a time.
        const COPIES: u64 = 3;
        let store = Store::open(self.directory, self.schema.clone(), self.options.clone())?;
        store.must_be_empty(self.own)?;
        let instance = store.instance().ok_or(StoreError::Closed)?;
        drop(store);
        let place = StoreLayout::new(self.directory, self.options.sync);
        let _lock = place.lock()?;
        if let Some(bytes) = self.bytes {
            disk_space::require_free(self.directory, COPIES * bytes)?;
        }
        place.clear_side()?;
        let side = place.side();
        let imported = self.fill(&side, instance, input).and_then(|imported| {
            place.offer_side()?;
            Ok(imported)
        });
        match imported {
            Ok(imported) => {
                place.take_side()?;
                Ok(imported)
            }
            Err(error) => {
                let _ = place.clear_side();
                Err(error)
            }
        }
    }

    fn fill(
        &self,
        side: &StoreLayout,
        instance: [u8; 16],
        input: &mut dyn BufRead,
    ) -> Result<Imported, StoreError> {
        let options = Options {
            instance,
            // Another timeline than that of the empty store, which may have been made just now.
            timeline: self.options.timeline.map(|byte| !byte),
            // Backups of the same name are not what this store comes from.
            backups: None,
            ..self.options.clone()
        };
        let store = Store::open(side.directory(), self.schema.clone(), options)?;
        let imported = store.import(input)?;
        store.checkpoint()?;
        Ok(imported)
    }
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
        maintenance::checkpoint(&self.0.core)
    }

    /// Makes everything that was committed so far part of the base, and proves it.
    ///
    /// # Errors
    /// That there is no space, or that something is damaged.
    pub fn renew_base(&self) -> Result<SnapshotHead, StoreError> {
        let core = &self.0.core;
        core.or_fail(maintenance::renew_whole(
            core,
            &self.0.inbox,
            (self.0.clock)(),
        ))
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

    /// Refuses a store that holds records in other tables than those named.
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

    /// Brings in the records of an export, and makes their indexes.
    pub(super) fn import(&self, input: &mut dyn BufRead) -> Result<Imported, StoreError> {
        const BATCH: usize = 256 * 1024;
        self.must_be_empty(&[])?;
        let schema = &self.0.core.schema;
        dump::read(input, schema, BATCH, &mut |plan| {
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
        let (place, mut identity) = (&disk.place, disk.identity.clone());
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
            place.identify(&identity)?;
        }
        for (to, step) in core.schema.steps_from(identity.reached) {
            step(self)?;
            identity.reached = to;
            place.identify(&identity)?;
        }
        Ok(true)
    }
}
