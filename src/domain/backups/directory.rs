//! The backup directory. It works without an open store, because backups are needed when the store does not
//! open.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use chrono::NaiveTime;

use super::BackupError;
use crate::audit::AuditedChange;
use playgate_store::{
    Restore, Retention, Schema, SnapshotHead, StoreError, Tables, check_snapshot, list_backups,
    prune_backups,
};
use playgate_types::{UnixSeconds, Zone};

/// Snapshot metadata: fingerprint of the key that the sealed content keys need.
pub const KEY_NOTE: &str = "content_key";
pub const VERSION_NOTE: &str = "version";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupSettings {
    pub data: PathBuf,
    pub directory: PathBuf,
    pub keep: usize,
    /// Local time of the nightly backup; `None` disables it.
    pub at: Option<NaiveTime>,
    pub zone: Zone,
    /// Fingerprint of this server's at-rest key, if there is one.
    pub key: Option<String>,
}

pub struct Restoring {
    pub instance: [u8; 16],
    pub timeline: [u8; 16],
    pub adopt: bool,
    /// The audit entry of the restore, which the restored store receives.
    pub change: AuditedChange,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    pub name: String,
    pub path: PathBuf,
    pub created: UnixSeconds,
    pub number: u64,
    pub records: Option<u64>,
    pub bytes: u64,
    pub made_by_this_store: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    Open,
    Sealed,
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupContents {
    pub created: UnixSeconds,
    pub number: u64,
    pub records: u64,
    pub tables: BTreeMap<String, u64>,
    pub version: Option<String>,
    pub key: Option<String>,
}

impl BackupContents {
    fn new(head: &SnapshotHead, tables: BTreeMap<&'static str, u64>) -> Self {
        let tables = tables.into_iter();
        let tables: BTreeMap<_, _> = tables.map(|(name, n)| (name.to_owned(), n)).collect();
        Self {
            created: UnixSeconds(head.created),
            number: head.number,
            records: tables.values().sum(),
            tables,
            version: head.notes.get(VERSION_NOTE).cloned(),
            key: head.notes.get(KEY_NOTE).cloned(),
        }
    }

    pub fn keys(&self, server_key: Option<&str>) -> Keys {
        match &self.key {
            None => Keys::Unknown,
            Some(key) if Some(key.as_str()) == server_key => Keys::Open,
            Some(_) => Keys::Sealed,
        }
    }
}

/// Verifies a backup, in this process or another.
pub type Examine = Arc<dyn Fn(&Path) -> Result<BackupContents, BackupError> + Send + Sync>;

/// Verifies checksums, every record, and indexes in both directions.
pub fn examine(path: &Path, tables: &Tables) -> Result<BackupContents, BackupError> {
    let (head, report) = check_snapshot(path, tables)?;
    Ok(BackupContents::new(&head, report.records))
}

#[derive(Clone, Debug)]
pub struct BackupDirectory {
    pub(super) settings: BackupSettings,
    /// `None` if there is no store or it cannot be read.
    instance: Option<[u8; 16]>,
    schema: fn() -> Schema,
}

impl BackupDirectory {
    pub(super) const fn new(
        settings: BackupSettings,
        instance: Option<[u8; 16]>,
        schema: fn() -> Schema,
    ) -> Self {
        Self {
            settings,
            instance,
            schema,
        }
    }

    pub fn new_offline(settings: BackupSettings, schema: fn() -> Schema) -> Self {
        // Read from the files, because the store may not open.
        let instance = playgate_store::instance_of(&settings.data);
        Self::new(settings, instance, schema)
    }

    pub fn key(&self) -> Option<&str> {
        self.settings.key.as_deref()
    }

    /// Lists the backups, newest first. Files with an unreadable header are left out.
    pub fn list(&self) -> Result<Vec<Backup>, BackupError> {
        let directory = &self.settings.directory;
        match fs::read_dir(directory) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // The store creates it with the first backup.
                return if self.is_inside() {
                    Ok(Vec::new())
                } else {
                    Err(BackupError::NoDirectory(directory.clone()))
                };
            }
            Err(error) => return Err(self.with_directory(error.into())),
        }
        let backups = list_backups(directory, &(self.schema)());
        Ok(backups
            .into_iter()
            .map(|backup| self.describe(backup))
            .collect())
    }

    /// Returns the path of a backup. Does not verify the file.
    pub fn find(&self, name: &str) -> Result<PathBuf, BackupError> {
        let path = self.settings.directory.join(name);
        // Reject names with separators or `..`, which would leave the directory.
        let is_file_name = path.file_name().is_some_and(|file| file == name);
        let is_backup = is_file_name && path.extension().is_some_and(|end| end == "snapshot");
        if is_backup && path.is_file() {
            Ok(path)
        } else {
            Err(BackupError::NotFound)
        }
    }

    pub fn restore_offline(
        &self,
        path: &Path,
        how: Restoring,
    ) -> Result<BackupContents, BackupError> {
        self.restore(path, how, true)
    }

    pub(super) fn restore(
        &self,
        path: &Path,
        how: Restoring,
        into_place: bool,
    ) -> Result<BackupContents, BackupError> {
        let Restoring {
            instance,
            timeline,
            adopt,
            change,
        } = how;
        let restore = Restore {
            directory: &self.settings.data,
            backup: path,
            backups: &self.settings.directory,
            schema: &(self.schema)(),
            instance,
            timeline,
            adopt,
            restore_note: &change.encode()?,
        };
        // A running server only stages the restore; its next start installs it.
        let restored = if into_place {
            restore.run()?
        } else {
            restore.prepare()?
        };
        Ok(BackupContents::new(&restored.head, restored.tables))
    }

    pub(super) fn upload(&self) -> PathBuf {
        self.settings.data.join("upload.snapshot")
    }

    fn is_inside(&self) -> bool {
        self.settings.directory.starts_with(&self.settings.data)
    }

    /// Returns an error if the directory is outside of the data directory and missing.
    pub(super) fn ensure_exists(&self) -> Result<(), BackupError> {
        let directory = &self.settings.directory;
        // The directory is never created: if its disk is not mounted, backups would fill the disk of the mount point.
        if self.is_inside() || directory.is_dir() {
            Ok(())
        } else {
            Err(BackupError::NoDirectory(directory.clone()))
        }
    }

    pub(super) fn prune(&self, made: &playgate_store::BackupFile) -> Result<usize, BackupError> {
        let BackupSettings {
            directory, keep, ..
        } = &self.settings;
        // Without an id every backup could belong to another store.
        let Some(instance) = self.instance else {
            return Ok(0);
        };
        let retention = Retention {
            instance,
            keep: *keep,
            made,
        };
        prune_backups(directory, &(self.schema)(), retention)
            .map_err(|error| self.with_directory(error))
    }

    pub(super) fn describe(&self, backup: playgate_store::BackupFile) -> Backup {
        let playgate_store::BackupFile { path, head, bytes } = &backup;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Backup {
            name: name.into_owned(),
            created: UnixSeconds(head.created),
            number: head.number,
            records: head.records,
            bytes: *bytes,
            made_by_this_store: self
                .instance
                .is_some_and(|instance| backup.is_made_by(instance)),
            path: backup.path,
        }
    }

    /// Adds the directory to errors that its disk usually causes.
    pub(super) fn with_directory(&self, error: StoreError) -> BackupError {
        match error {
            StoreError::Full
            | StoreError::NoRoom { .. }
            | StoreError::NotSynced(_)
            | StoreError::Io(_) => BackupError::Directory {
                directory: self.settings.directory.clone(),
                full: matches!(error, StoreError::Full | StoreError::NoRoom { .. }),
                why: error.to_string(),
            },
            other => other.into(),
        }
    }
}
