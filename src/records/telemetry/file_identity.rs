//! Tells whether a file is still the one that was read.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileIdentity {
    inode: u64,
    pub(super) length: u64,
    changed: (i64, i64),
}

impl From<&Metadata> for FileIdentity {
    fn from(metadata: &Metadata) -> Self {
        Self {
            inode: metadata.ino(),
            length: metadata.len(),
            changed: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}
