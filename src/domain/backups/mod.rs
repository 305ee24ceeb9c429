//! Backups, made while the service runs: manual and nightly; list, verify, restore.
//!
//! A backup is one file with every record as of one commit. It contains neither the at-rest keys (so a stolen
//! copy opens nothing) nor telemetry bodies (30 days of events in every backup would multiply the disk usage).
//! The newest `backup.keep` backups of a timeline are retained. Other files and backups of other instances are
//! never touched.

mod directory;
mod error;
mod nightly;
#[cfg(test)]
mod tests;

use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use parking_lot::Mutex;

pub use directory::{
    Backup, BackupContents, BackupDirectory, BackupSettings, Examine, KEY_NOTE, Keys, Restoring,
    VERSION_NOTE, examine,
};
pub use error::BackupError;

use crate::audit::AuditedChange;
use crate::backoff::Backoff;
use nightly::last_night;
use playgate_process::data_file;
use playgate_store::{Schema, Store, StoreError};
use playgate_types::UnixSeconds;
use playgate_types::time::{DAY, HOUR};

/// Seconds for which a listing is cached. It expires, because an operator may delete backups.
const LISTING_CACHED: i64 = HOUR;
/// Without jitter: one task runs the backups.
const RETRY: Backoff = Backoff {
    first: 60,
    longest: HOUR,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newest {
    pub created: UnixSeconds,
    pub records: u64,
}

/// Answered from memory; reads nothing from disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupStatus {
    /// `None` if there is no backup or the directory was not read yet.
    pub newest: Option<Newest>,
    pub count: usize,
    /// Time of the last failure since the start.
    pub failed: Option<UnixSeconds>,
}

#[derive(Default)]
struct BackupState {
    status: BackupStatus,
    looked: Option<UnixSeconds>,
    failures: u32,
    /// Time of the last nightly backup, even if that backup was deleted since.
    nightly: Option<UnixSeconds>,
}

/// Its methods block for a time proportional to the size of the store.
#[derive(Clone)]
pub struct Backups(Arc<Inner>);

struct Inner {
    store: Store,
    directory: BackupDirectory,
    examine: Examine,
    state: Mutex<BackupState>,
    busy: Mutex<()>,
}

impl Backups {
    pub fn new(
        store: Store,
        settings: BackupSettings,
        examine: Examine,
        schema: fn() -> Schema,
    ) -> Self {
        let directory = BackupDirectory::new(settings, store.instance(), schema);
        // A restore that was killed may have left its upload.
        let _ = fs::remove_file(directory.upload());
        Self(Arc::new(Inner {
            store,
            directory,
            examine,
            state: Mutex::default(),
            busy: Mutex::default(),
        }))
    }

    pub fn directory(&self) -> &BackupDirectory {
        &self.0.directory
    }

    pub fn status(&self) -> BackupStatus {
        self.0.state.lock().status
    }

    /// Makes a backup. Existing backups are kept if this fails.
    pub fn create(&self, now: UnixSeconds) -> Result<Backup, BackupError> {
        let _busy = self.0.busy.lock();
        self.0.create(now)
    }

    /// Makes the nightly backup if it is due, and returns the number of backups made. A missed or failed night is made
    /// up for. A store without backups gets one immediately.
    pub fn run_scheduled(&self, now: UnixSeconds) -> Result<usize, BackupError> {
        let inner = &self.0;
        let BackupSettings { at, zone, .. } = inner.directory.settings;
        // A running backup covers the night; a running restore ends this process.
        let Some(_busy) = inner.busy.try_lock() else {
            return Ok(0);
        };
        // An unreachable directory must not be tried every second.
        if inner.is_backing_off(now) {
            return Ok(0);
        }
        // Without a listing it is not known whether this night has a backup.
        inner.record_result(now, inner.refresh_listing(now))?;
        let Some(at) = at else {
            return Ok(0);
        };
        let night = last_night(now, at, zone);
        let newest = self.status().newest.map(|newest| newest.created);
        let nightly = inner.state.lock().nightly;
        // Backups dated more than a day ahead come from a wrong clock; they do not count.
        let is_made = |at: UnixSeconds| (night..=now + DAY).contains(&at);
        if newest.is_some_and(is_made) || nightly.is_some_and(is_made) {
            return Ok(0);
        }
        inner.create(now)?;
        // Stored apart from the listing, so that an operator who deletes the backup does not get another one the
        // same night.
        inner.state.lock().nightly = Some(now);
        Ok(1)
    }

    pub fn verify(&self, name: &str) -> Result<BackupContents, BackupError> {
        // No lock: a finished backup never changes.
        (self.0.examine)(&self.0.directory.find(name)?)
    }

    /// Stages a backup next to the store; the next start installs it. The restored store receives
    /// `change` as audit entry.
    pub fn restore(
        &self,
        path: &Path,
        adopt: bool,
        change: AuditedChange,
    ) -> Result<BackupContents, BackupError> {
        let inner = &self.0;
        // Waits for a running backup, which reads the files that a restore replaces.
        let _busy = inner.busy.lock();
        let instance = inner.store.instance().ok_or(StoreError::Closed)?;
        let timeline = inner.store.timeline_seed().ok_or(StoreError::Closed)?;
        let restore = Restoring {
            instance,
            timeline,
            adopt,
            change,
        };
        inner.directory.restore(path, restore, false)
    }

    pub fn restore_upload(
        &self,
        body: &mut dyn io::Read,
        adopt: bool,
        change: AuditedChange,
    ) -> Result<BackupContents, BackupError> {
        let upload = self.0.directory.upload();
        let mut options = fs::File::options();
        // Readable only for this service: a backup contains personal data.
        options.write(true).create(true).truncate(true).mode(0o600);
        let received = data_file::open(&options, &upload)
            .and_then(|mut file| io::copy(body, &mut file))
            .map_err(StoreError::from)
            .map_err(BackupError::from);
        let restored = received.and_then(|_| self.restore(&upload, adopt, change));
        // Also after a failure: the upload can be as large as the store.
        let _ = fs::remove_file(&upload);
        restored
    }
}

impl Inner {
    fn is_backing_off(&self, now: UnixSeconds) -> bool {
        let state = self.state.lock();
        let Some(earlier) = state.failures.checked_sub(1) else {
            return false;
        };
        let wait = RETRY.delay(earlier);
        state
            .status
            .failed
            .is_some_and(|failed| (0..wait).contains(&now.since(failed)))
    }

    fn record_result<T>(
        &self,
        now: UnixSeconds,
        result: Result<T, BackupError>,
    ) -> Result<T, BackupError> {
        let mut state = self.state.lock();
        if result.is_err() {
            state.failures = state.failures.saturating_add(1);
            state.status.failed = Some(now);
        }
        drop(state);
        result
    }

    fn create(&self, now: UnixSeconds) -> Result<Backup, BackupError> {
        let made = self.record_result(now, self.make());
        if let Ok(backup) = &made {
            tracing::info!(
                path = %backup.path.display(),
                records = backup.records,
                bytes = backup.bytes,
                "backup created and verified"
            );
        }
        // Expires the cached listing, so that the next line reads the directory.
        self.state.lock().looked = None;
        // If the listing fails, the next run reads it again.
        let _ = self.refresh_listing(now);
        made
    }

    fn make(&self) -> Result<Backup, BackupError> {
        let settings = &self.directory.settings;
        self.directory.ensure_exists()?;
        let made = self
            .store
            .back_up(&settings.directory)
            .map_err(|error| self.directory.with_directory(error))?;
        self.state.lock().failures = 0;
        // Not fatal: the new backup is complete, and the next run prunes again.
        if let Err(error) = self.directory.prune(&made) {
            tracing::warn!(%error, "failed to remove old backups");
        }
        Ok(self.directory.describe(made))
    }

    fn refresh_listing(&self, now: UnixSeconds) -> Result<(), BackupError> {
        let fresh = |looked: UnixSeconds| (0..LISTING_CACHED).contains(&now.since(looked));
        if self.state.lock().looked.is_some_and(fresh) {
            return Ok(());
        }
        let of_this_store: Vec<Backup> = self
            .directory
            .list()?
            .into_iter()
            .filter(|backup| backup.made_by_this_store)
            .collect();
        // A backup dated into the far future by a wrong clock must not suppress new ones.
        let newest = of_this_store
            .iter()
            .find(|backup| backup.created <= now + DAY);
        let mut state = self.state.lock();
        state.looked = Some(now);
        state.status.count = of_this_store.len();
        state.status.newest = newest.map(|backup| Newest {
            created: backup.created,
            records: backup.records.unwrap_or_default(),
        });
        Ok(())
    }
}
