//! The schema of a store: its tables, and the steps that upgrade an older store to them.

use std::ops::Deref;
use std::os::unix::ffi::OsStrExt as _;

use crate::error::StoreError;
use crate::handle::Store;
use crate::options::Options;
use crate::table::{Table, Tables};
use playgate_process::files::replace_file;

/// An upgrade step from one format to the next. It may run more than once, after an interruption
/// too, so it must be idempotent.
pub type UpgradeStep = fn(&Store) -> Result<(), StoreError>;

/// Everything below an opening store knows only the tables: the steps change records through the store itself.
#[derive(Clone, Default)]
pub struct Schema {
    tables: Tables,
    steps: Vec<UpgradeStep>,
}

impl Schema {
    pub fn with<T: Table>(mut self) -> Self {
        self.tables.add::<T>();
        self
    }

    pub fn upgraded_by(mut self, step: UpgradeStep) -> Self {
        self.tables.next_format();
        self.steps.push(step);
        self
    }

    /// Returns the steps after a format, each with the format that it leads to.
    fn steps_from(&self, format: u32) -> impl Iterator<Item = (u32, UpgradeStep)> {
        let steps = (2..).zip(self.steps.iter().copied());
        steps.filter(move |(to, _)| *to > format)
    }
}

impl Deref for Schema {
    type Target = Tables;

    fn deref(&self) -> &Tables {
        &self.tables
    }
}

impl Store {
    /// Runs the upgrade steps to the format of the schema; returns whether there were any. After the
    /// first step older versions cannot open the store; a downgrade needs the backup made before it.
    pub(crate) fn upgrade(&self, schema: &Schema, options: &Options) -> Result<bool, StoreError> {
        let core = &self.0.core;
        let Some(disk) = &core.disk else {
            return Ok(false);
        };
        let (layout, mut identity) = (&disk.layout, disk.identity.clone());
        let format = schema.format();
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
        for (to, step) in schema.steps_from(identity.reached) {
            step(self)?;
            // Progress is recorded after each step, so that an interrupted upgrade continues where it ended.
            identity.reached = to;
            layout.write_identity(&identity)?;
        }
        Ok(true)
    }
}
