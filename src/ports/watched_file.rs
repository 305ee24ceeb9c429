//! Operator-managed files that may be replaced while the server runs: change detection, reloading, and
//! permissions.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileStamp {
    inode: u64,
    length: u64,
    changed: (i64, i64),
}

impl FileStamp {
    /// The stamp of a file of at most `most` bytes. It must be read before the content: a file that is
    /// overwritten in between is then read again.
    pub(super) fn read(path: &Path, most: u64) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        if metadata.len() > most {
            return Err(io::Error::other(format!("larger than {most} bytes")));
        }
        Ok(Self {
            inode: metadata.ino(),
            length: metadata.len(),
            // With the inode and nanoseconds, a file replaced twice within a second is still noticed.
            changed: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }
}

/// A value computed from files, and recomputed when they change.
pub(super) struct Reloadable<T, S> {
    current: ArcSwap<T>,
    /// The stamps of the files that the current value was computed from.
    made_of: Mutex<S>,
}

impl<T, S: PartialEq> Reloadable<T, S> {
    pub(super) fn new<E>(
        state: impl FnOnce() -> Result<S, E>,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<Self, E> {
        let state = state()?;
        Ok(Self {
            current: ArcSwap::from_pointee(make()?),
            made_of: Mutex::new(state),
        })
    }

    pub(super) fn current(&self) -> Guard<Arc<T>> {
        self.current.load()
    }

    /// Recomputes the value if the stamps differ, and returns whether it did. After an error the current
    /// value stays in use, and the files are tried again next time.
    pub(super) fn refresh<E>(
        &self,
        state: impl FnOnce() -> Result<S, E>,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<bool, E> {
        // Held while the files are read: a second caller waits instead of reading them too.
        let mut made_of = self.made_of.lock();
        let state = state()?;
        if state == *made_of {
            return Ok(false);
        }
        // The stamps change only after a success, so that a failure is tried again.
        self.current.store(Arc::new(make()?));
        *made_of = state;
        Ok(true)
    }
}

/// Whether a secret's file is world-readable. `/run/secrets` is exempt: container runtimes mount secrets
/// world-readable, and the container is the security boundary.
pub fn readable_by_all(path: &Path, mode: u32) -> bool {
    mode & 0o004 != 0 && !path.starts_with("/run/secrets")
}
