//! The directory of backups. Nothing here needs the store to be open: it is what one goes back to
//! when a store does not open any more.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::NaiveTime;
use chrono_tz::Tz;

use super::BackupError;
use crate::domain;
use crate::domain::audit::Change;
use crate::store::{
    self, Restore, Retention, SnapshotHead, StoreError, check_snapshot, list_backups, prune_backups,
};
use crate::types::UnixSeconds;

/// The note of a backup that tells which key its sealed keys need.
pub const KEY_NOTE: &str = "content_key";
/// The note that tells which version made it.
pub const VERSION_NOTE: &str = "version";

/// How backups are made and kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The data directory.
    pub data: PathBuf,
    /// Where backups lie.
    pub directory: PathBuf,
    /// How many are kept.
    pub keep: usize,
    /// When the one of the night is made; none is.
    pub at: Option<NaiveTime>,
    /// Whose clocks show that time.
    pub zone: Tz,
    /// What tells this machine's key at rest from others; none if there is no key yet.
    pub key: Option<String>,
}

/// How a backup is brought back.
pub struct Restoring {
    /// The name of the store, if there is none yet.
    pub instance: [u8; 16],
    /// Random: what the id of the new timeline is derived from.
    pub timeline: [u8; 16],
    /// Whether the backup may be another machine's.
    pub adopt: bool,
    /// The record of it, for the store that comes of it.
    pub change: Change,
}

/// A backup in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// The name of its file.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    /// When it was made.
    pub created: UnixSeconds,
    /// The commit that it was made after.
    pub number: u64,
    /// How many records it holds, if it says so.
    pub records: Option<u64>,
    /// The size of the file.
    pub bytes: u64,
    /// Whether this store made it, here.
    pub own: bool,
}

/// Whether this machine opens the keys in a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// They were sealed under this machine's key.
    Open,
    /// They were sealed under another key.
    Sealed,
    /// The backup does not say.
    Unknown,
}

/// What a sound backup holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// When it was made.
    pub created: UnixSeconds,
    /// The commit that it was made after.
    pub number: u64,
    /// How many records it holds.
    pub records: u64,
    /// The records of each table.
    pub tables: BTreeMap<String, u64>,
    /// The version that made it.
    pub version: Option<String>,
    /// What tells the key that its sealed keys need from others.
    pub key: Option<String>,
}

impl Contents {
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

    /// Whether a machine with a key opens its keys.
    #[must_use]
    pub fn keys(&self, own: Option<&str>) -> Keys {
        match &self.key {
            None => Keys::Unknown,
            Some(key) if Some(key.as_str()) == own => Keys::Open,
            Some(_) => Keys::Sealed,
        }
    }
}

/// Reads a backup to its end, wherever that is done.
pub type Examine = Arc<dyn Fn(&Path) -> Result<Contents, BackupError> + Send + Sync>;

/// Reads a file to its end, in this process: sums, every record, and indexes both ways.
///
/// # Errors
/// What is wrong with it.
pub fn examine(path: &Path) -> Result<Contents, BackupError> {
    let (head, report) = check_snapshot(path, &domain::schema())?;
    Ok(Contents::new(&head, report.records))
}

/// The directory of backups.
#[derive(Clone, Debug)]
pub struct BackupDirectory {
    pub(super) settings: Settings,
    /// The name of the store; none if there is none, or it cannot be read.
    instance: Option<[u8; 16]>,
}

impl BackupDirectory {
    pub(super) const fn new(settings: Settings, instance: Option<[u8; 16]>) -> Self {
        Self { settings, instance }
    }

    /// The shelf of a data directory whose store is not open.
    #[must_use]
    pub fn new_offline(settings: Settings) -> Self {
        let instance = store::instance_of(&settings.data);
        Self { settings, instance }
    }

    /// What tells this machine's key at rest from others.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.settings.key.as_deref()
    }

    /// The backups of which the head can be read, the newest first.
    ///
    /// # Errors
    /// That the directory is not there, or cannot be read.
    pub fn list(&self) -> Result<Vec<Backup>, BackupError> {
        let directory = &self.settings.directory;
        match fs::read_dir(directory) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return if self.is_inside() {
                    Ok(Vec::new())
                } else {
                    Err(BackupError::NoDirectory(directory.clone()))
                };
            }
            Err(error) => return Err(self.failed(error.into())),
        }
        let backups = list_backups(directory, &domain::schema());
        Ok(backups
            .into_iter()
            .map(|backup| self.line(backup))
            .collect())
    }

    /// The file of a backup by its name, be it sound or not.
    ///
    /// # Errors
    /// [`BackupError::NotFound`].
    pub fn find(&self, name: &str) -> Result<PathBuf, BackupError> {
        let path = self.settings.directory.join(name);
        let bare = path.file_name().is_some_and(|file| file == name);
        let is_backup = bare && path.extension().is_some_and(|end| end == "snapshot");
        if is_backup && path.is_file() {
            Ok(path)
        } else {
            Err(BackupError::NotFound)
        }
    }

    /// Brings a backup back where no process has the store open, and puts it into place.
    ///
    /// # Errors
    /// What is wrong with it; that it is another machine's and `adopt` is not set.
    pub fn restore_at_rest(&self, path: &Path, how: Restoring) -> Result<Contents, BackupError> {
        self.restore(path, how, true)
    }

    pub(super) fn restore(
        &self,
        path: &Path,
        how: Restoring,
        into_place: bool,
    ) -> Result<Contents, BackupError> {
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
            schema: &domain::schema(),
            instance,
            timeline,
            adopt,
            word: &change.encode()?,
        };
        let restored = if into_place {
            restore.run()?
        } else {
            restore.prepare()?
        };
        Ok(Contents::new(&restored.head, restored.tables))
    }

    /// Where a backup is received.
    pub(super) fn upload(&self) -> PathBuf {
        self.settings.data.join("upload.snapshot")
    }

    fn is_inside(&self) -> bool {
        self.settings.directory.starts_with(&self.settings.data)
    }

    /// Refuses a directory that is not there and not ours to make.
    pub(super) fn ensure_exists(&self) -> Result<(), BackupError> {
        let directory = &self.settings.directory;
        if self.is_inside() || directory.is_dir() {
            Ok(())
        } else {
            Err(BackupError::NoDirectory(directory.clone()))
        }
    }

    /// Removes what is over the number that is kept, and never what was just made.
    pub(super) fn prune(&self, made: &store::Backup) -> Result<usize, BackupError> {
        let Settings {
            directory, keep, ..
        } = &self.settings;
        let Some(instance) = self.instance else {
            return Ok(0);
        };
        let retention = Retention {
            instance,
            keep: *keep,
            made,
        };
        prune_backups(directory, &domain::schema(), retention).map_err(|error| self.failed(error))
    }

    pub(super) fn line(&self, backup: store::Backup) -> Backup {
        let store::Backup { path, head, bytes } = &backup;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Backup {
            name: name.into_owned(),
            created: UnixSeconds(head.created),
            number: head.number,
            records: head.records,
            bytes: *bytes,
            own: self
                .instance
                .is_some_and(|instance| backup.is_made_by(instance)),
            path: backup.path,
        }
    }

    /// A failure that is most often the disk's names the directory.
    pub(super) fn failed(&self, error: StoreError) -> BackupError {
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
