//! Files that an operator keeps: what tells two states of one apart, since it may be replaced under a
//! running server, and who may read it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    inode: u64,
    length: u64,
    changed: (i64, i64),
}

impl Stamp {
    /// The state of a file of at most `most` bytes. Taken before the content is read: what is
    /// overwritten meanwhile is read again.
    pub(super) fn of(path: &Path, most: u64) -> io::Result<Self> {
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

/// Whether everybody on the machine may read a secret's file with this mode. Container runtimes mount
/// secrets for everybody, inside a container that is the boundary itself.
#[must_use]
pub fn readable_by_all(path: &Path, mode: u32) -> bool {
    mode & 0o004 != 0 && !path.starts_with("/run/secrets")
}
