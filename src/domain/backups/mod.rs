//! Backups: made while the service runs, by an operator or every night; listed, verified, brought
//! back.
//!
//! A backup is one file with every record of the store as of one commit. Keys at rest are not in it,
//! so that a copy of it alone opens nothing; it notes which key it needs. Nor are the bodies of
//! telemetry, which are exported: a copy of thirty days of events every night would multiply the
//! disk by the backups that are kept.
//!
//! Nightly and manual backups count alike; the newest `backup.keep` of a timeline stay, by date. What
//! lies in the directory under another name, or is another machine's, is never touched.
//!
//! Decision: a directory outside of the data directory has to be there. It is most often on a disk
//! of its own, and when that is not mounted a backup must not land, unseen, on the disk that it is
//! there to replace.

mod directory;
mod error;
mod nightly;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

pub use directory::{
    Backup, BackupDirectory, Contents, Examine, KEY_NOTE, Keys, Restoring, Settings, VERSION_NOTE,
    examine,
};
pub use error::BackupError;

use crate::domain::audit::Change;
use crate::store::{Store, StoreError};
use crate::types::UnixSeconds;
use crate::types::time::{DAY, HOUR};
use nightly::last_night;

/// How long the directory is believed to be as it was seen: a person may take a backup away.
const BELIEVED: i64 = HOUR;
/// How long a failed backup waits at first, and at most, until it is tried again.
const AGAIN: (i64, i64) = (60, HOUR);

/// The newest proven backup of this store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newest {
    /// When it was made.
    pub created: UnixSeconds,
    /// The records in it.
    pub records: u64,
}

/// What is known of the backups without looking at the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The newest one; none if there is none, or nobody has looked.
    pub newest: Option<Newest>,
    /// How many of this store there are.
    pub count: usize,
    /// When one could last not be made, since the start.
    pub failed: Option<UnixSeconds>,
}

#[derive(Default)]
struct State {
    status: Status,
    /// When the directory was looked at.
    looked: Option<UnixSeconds>,
    /// Failures in a row.
    failures: u32,
    /// When the last one of a night was made, whatever the directory shows.
    nightly: Option<UnixSeconds>,
}

/// Makes backups and brings them back. Its verbs block for as long as the store is large.
#[derive(Clone)]
pub struct Backups(Arc<Inner>);

struct Inner {
    store: Store,
    shelf: BackupDirectory,
    examine: Examine,
    state: Mutex<State>,
    /// Held while one is made or brought back: one at a time.
    busy: Mutex<()>,
}

impl Backups {
    /// The backups of a store, and what reads one that is to be verified.
    #[must_use]
    pub fn new(store: Store, settings: Settings, examine: Examine) -> Self {
        let shelf = BackupDirectory::new(settings, store.instance());
        // What a kill has left of a restore.
        let _ = fs::remove_file(shelf.upload());
        Self(Arc::new(Inner {
            store,
            shelf,
            examine,
            state: Mutex::default(),
            busy: Mutex::default(),
        }))
    }

    /// Where they lie.
    #[must_use]
    pub fn shelf(&self) -> &BackupDirectory {
        &self.0.shelf
    }

    /// What is known of them.
    #[must_use]
    pub fn status(&self) -> Status {
        self.0.state.lock().status
    }

    /// Makes one, proves it, and removes the oldest over what is kept.
    ///
    /// # Errors
    /// That it could not be made; those that are there stay.
    pub fn create(&self, now: UnixSeconds) -> Result<Backup, BackupError> {
        let _one_at_a_time = self.0.busy.lock();
        self.0.create(now)
    }

    /// Makes the one of the night if its time has come since the newest was made. What was missed,
    /// because nothing ran or it failed, is made up for; a store without any gets its first at once.
    /// Returns how many were made.
    ///
    /// # Errors
    /// As [`Backups::create`]; the next tries wait longer and longer, up to an hour.
    pub fn run_scheduled(&self, now: UnixSeconds) -> Result<usize, BackupError> {
        let inner = &self.0;
        let Settings { at, zone, .. } = inner.shelf.settings;
        // Whoever is at it now makes the one that is due, or ends this process.
        let Some(_one_at_a_time) = inner.busy.try_lock() else {
            return Ok(0);
        };
        if at.is_some() && inner.waits(now) {
            return Ok(0);
        }
        let looked = inner.refresh_listing(now);
        let Some(at) = at else {
            return Ok(0);
        };
        inner.noted(now, looked)?;
        let night = last_night(now, at, zone);
        let newest = self.status().newest.map(|newest| newest.created);
        let nightly = inner.state.lock().nightly;
        // A clock that was far ahead for a while does not hold up the nights to come.
        let is_made = |at: UnixSeconds| (night..=now + DAY).contains(&at);
        if newest.is_some_and(is_made) || nightly.is_some_and(is_made) {
            return Ok(0);
        }
        inner.create(now)?;
        inner.state.lock().nightly = Some(now);
        Ok(1)
    }

    /// Reads a backup to its end.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn verify(&self, name: &str) -> Result<Contents, BackupError> {
        (self.0.examine)(&self.0.shelf.find(name)?)
    }

    /// Unpacks a backup beside the store, for the next start of the process to put into place. The
    /// store that comes of it has the record of this change.
    ///
    /// # Errors
    /// What is wrong with it; that it is another machine's and `adopt` is not set.
    pub fn restore(
        &self,
        path: &Path,
        adopt: bool,
        change: Change,
    ) -> Result<Contents, BackupError> {
        let inner = &self.0;
        let _one_at_a_time = inner.busy.lock();
        let instance = inner.store.instance().ok_or(StoreError::Closed)?;
        let timeline = inner.store.timeline_seed().ok_or(StoreError::Closed)?;
        let restore = Restoring {
            instance,
            timeline,
            adopt,
            change,
        };
        inner.shelf.restore(path, restore, false)
    }

    /// The same with a backup that is sent.
    ///
    /// # Errors
    /// As [`Backups::restore`], and that it cannot be received.
    pub fn restore_sent(
        &self,
        body: &mut dyn io::Read,
        adopt: bool,
        change: Change,
    ) -> Result<Contents, BackupError> {
        let upload = self.0.shelf.upload();
        let received = fs::File::options()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&upload)
            .and_then(|mut file| io::copy(body, &mut file))
            .map_err(StoreError::from)
            .map_err(BackupError::from);
        let restored = received.and_then(|_| self.restore(&upload, adopt, change));
        let _ = fs::remove_file(&upload);
        restored
    }
}

impl Inner {
    /// Whether the last try has failed and the next has to wait.
    fn waits(&self, now: UnixSeconds) -> bool {
        let state = self.state.lock();
        let Some(doublings) = state.failures.checked_sub(1) else {
            return false;
        };
        let wait = (AGAIN.0 << doublings.min(10)).min(AGAIN.1);
        state
            .status
            .failed
            .is_some_and(|failed| (0..wait).contains(&now.since(failed)))
    }

    /// Remembers how it went.
    fn noted<T>(&self, now: UnixSeconds, result: Result<T, BackupError>) -> Result<T, BackupError> {
        let mut state = self.state.lock();
        if result.is_err() {
            state.failures = state.failures.saturating_add(1);
            state.status.failed = Some(now);
        }
        drop(state);
        result
    }

    fn create(&self, now: UnixSeconds) -> Result<Backup, BackupError> {
        let made = self.noted(now, self.make());
        if let Ok(backup) = &made {
            tracing::info!(
                path = %backup.path.display(),
                records = backup.records,
                bytes = backup.bytes,
                "a backup was made and proven"
            );
        }
        self.state.lock().looked = None;
        // What cannot be seen now is looked at the next time.
        let _ = self.refresh_listing(now);
        made
    }

    fn make(&self) -> Result<Backup, BackupError> {
        let settings = &self.shelf.settings;
        self.shelf.ensure_exists()?;
        let made = self
            .store
            .back_up(&settings.directory)
            .map_err(|error| self.shelf.failed(error))?;
        self.state.lock().failures = 0;
        if let Err(error) = self.shelf.prune(&made) {
            tracing::warn!(%error, "old backups could not be removed");
        }
        Ok(self.shelf.line(made))
    }

    /// Looks at the directory, if nobody has for a while.
    fn refresh_listing(&self, now: UnixSeconds) -> Result<(), BackupError> {
        let fresh = |looked: UnixSeconds| (0..BELIEVED).contains(&now.since(looked));
        if self.state.lock().looked.is_some_and(fresh) {
            return Ok(());
        }
        let own: Vec<Backup> = self
            .shelf
            .list()?
            .into_iter()
            .filter(|backup| backup.own)
            .collect();
        // One that a wrong clock dated into the far future does not hold up those to come.
        let newest = own.iter().find(|backup| backup.created <= now + DAY);
        let mut state = self.state.lock();
        state.looked = Some(now);
        state.status.count = own.len();
        state.status.newest = newest.map(|backup| Newest {
            created: backup.created,
            records: backup.records.unwrap_or_default(),
        });
        Ok(())
    }
}
