//! The lock of a data directory: only the process that holds it may open the store.

use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::StoreError;
use playgate_process::data_file::{self, at};
use playgate_process::files::{is_in_place, make_directory};

pub(super) fn lock_file(directory: &Path) -> PathBuf {
    directory.join("lock")
}

/// Held until the last clone is dropped. The lock belongs to the open file: a process that executes itself again hands the
/// file over and never gives the lock up in between.
#[derive(Clone, Debug)]
pub struct StoreLock(Arc<File>);

impl StoreLock {
    fn new(locked: File) -> Self {
        Self(Arc::new(locked))
    }

    /// # Errors
    /// [`StoreError::InUse`] if another process holds it.
    pub fn acquire(directory: &Path, sync: bool) -> Result<Self, StoreError> {
        make_directory(directory, sync).map_err(|error| unusable(directory, error))?;
        let path = lock_file(directory);
        let opened = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .clone();
        let lock = match data_file::open(&opened, &path) {
            // On a read-only disk an existing lock file can still be locked.
            Err(error) if StoreError::from(io::Error::from(error.kind())) == StoreError::Full => {
                data_file::open_to_read(&path)
            }
            other => other,
        }
        .map_err(|error| unusable(directory, error))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self::new(lock)),
            Err(TryLockError::WouldBlock) => Err(StoreError::InUse),
            Err(TryLockError::Error(error)) => Err(at("lock", &path)(error).into()),
        }
    }

    /// Takes over a lock that was handed over. `None` if the file is not the lock of this directory, or another process
    /// holds the lock.
    pub fn adopt(file: File, directory: &Path) -> Option<Self> {
        // Succeeds if this open file holds the lock already.
        file.try_lock().ok()?;
        Some(Self::new(file)).filter(|lock| lock.is_of(directory))
    }

    /// Whether it still locks the directory. Another process locks another file if this one was deleted or replaced.
    pub(super) fn is_of(&self, directory: &Path) -> bool {
        is_in_place(&self.0, &lock_file(directory))
    }
}

impl AsFd for StoreLock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn unusable(directory: &Path, error: io::Error) -> StoreError {
    match StoreError::from(error) {
        // "Permission denied" without a path does not help an operator.
        StoreError::Io(why) => {
            StoreError::Io(format!("the data directory {}: {why}", directory.display()))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_lock_that_is_handed_over_is_never_free() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path();
        let held = StoreLock::acquire(place, false).unwrap();
        let handed = File::from(held.as_fd().try_clone_to_owned().unwrap());
        drop(held);
        let refused = StoreLock::acquire(place, false).err();
        assert_eq!(refused, Some(StoreError::InUse));
        let held = StoreLock::adopt(handed, place).unwrap();
        assert_eq!(
            StoreLock::acquire(place, false).err(),
            Some(StoreError::InUse)
        );
        drop(held);
        assert!(StoreLock::acquire(place, false).is_ok());
    }

    #[test]
    fn a_file_that_is_not_the_lock_of_the_directory_is_not_adopted() {
        let folder = tempfile::tempdir().unwrap();
        let [here, elsewhere] = ["here", "elsewhere"].map(|name| folder.path().join(name));
        let held = StoreLock::acquire(&here, false).unwrap();
        // The lock of another directory, after a reload changed `data_dir`.
        let other = StoreLock::acquire(&elsewhere, false).unwrap();
        let copy = |lock: &StoreLock| File::from(lock.as_fd().try_clone_to_owned().unwrap());
        assert!(StoreLock::adopt(copy(&other), &here).is_none());
        // The same file, opened again: another open file holds the lock.
        let again = File::open(lock_file(&here)).unwrap();
        assert!(StoreLock::adopt(again, &here).is_none());
        // The name leads to another file now, which another process may have locked.
        fs::remove_file(lock_file(&here)).unwrap();
        assert!(StoreLock::adopt(copy(&held), &here).is_none());
        drop(held);
    }
}
