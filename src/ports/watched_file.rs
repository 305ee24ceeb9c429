//! Files that an operator keeps: what tells two states of one apart, since it may be replaced under a
//! running server, and who may read it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;

/// The state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileStamp {
    inode: u64,
    length: u64,
    changed: (i64, i64),
}

impl FileStamp {
    /// The state of a file of at most `most` bytes. Taken before the content is read: what is
    /// overwritten meanwhile is read again.
    pub(super) fn read(path: &Path, most: u64) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        if metadata.len() > most {
            return Err(io::Error::other(format!("larger than {most} bytes")));
        }
        Ok(Self {
            inode: metadata.ino(),
            length: metadata.len(),
            changed: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }
}

/// What was made of files, and is made anew when they have changed.
pub(super) struct Reloadable<T, S> {
    current: ArcSwap<T>,
    /// The state of the files that the current one was made of.
    made_of: Mutex<S>,
}

impl<T, S: PartialEq> Reloadable<T, S> {
    /// Makes the first one.
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

    /// The one in use.
    pub(super) fn current(&self) -> Guard<Arc<T>> {
        self.current.load()
    }

    /// Makes another one if the state of the files is another; whether it is. After a failure the
    /// one in use stays, and the files are looked at again the next time.
    pub(super) fn refresh<E>(
        &self,
        state: impl FnOnce() -> Result<S, E>,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<bool, E> {
        let mut made_of = self.made_of.lock();
        let state = state()?;
        if state == *made_of {
            return Ok(false);
        }
        self.current.store(Arc::new(make()?));
        *made_of = state;
        Ok(true)
    }
}

/// Whether everybody on the machine may read a secret's file with this mode. Container runtimes mount
/// secrets for everybody, inside a container that is the boundary itself.
#[must_use]
pub fn readable_by_all(path: &Path, mode: u32) -> bool {
    mode & 0o004 != 0 && !path.starts_with("/run/secrets")
}
