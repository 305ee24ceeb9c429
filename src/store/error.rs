//! What can go wrong in the store, as situations that callers act on.

use std::io;

use super::files::{is_failed_sync, is_out_of_descriptors};

/// Why the store could not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// There is no space, or the file system is read-only. Reads go on; nothing was changed.
    #[error("the disk is full or read-only")]
    Full,
    /// A task needs more room on a disk than is free. Nothing was changed.
    #[error(
        "{place} has {} free, and this needs about {}: make room first",
        mebibytes(*.free),
        mebibytes(*.needed)
    )]
    NoRoom {
        /// The directory.
        place: String,
        /// The bytes that it needs, with those that stay free for the service itself.
        needed: u64,
        /// The bytes that are free.
        free: u64,
    },
    /// No file descriptor is free. Reads go on; nothing was changed.
    #[error(
        "no file descriptor is free ({0}): raise LimitNOFILE of the service, or lower limits.connections"
    )]
    NoDescriptor(String),
    /// More is waiting than may wait. Nothing was changed.
    #[error("too many commits are waiting")]
    Overloaded,
    /// A record, an index entry or a log segment is not what was written.
    #[error("{place}: {what}")]
    Damaged {
        /// The table and key, or the file.
        place: String,
        /// What is wrong with it.
        what: String,
    },
    /// A record, or a commit, is over its bound.
    #[error("a record of `{table}` is too large")]
    TooLarge {
        /// The table.
        table: String,
    },
    /// Another process has the data directory.
    #[error("another process uses this data directory")]
    InUse,
    /// The data was written by a newer version.
    #[error("the data directory has format {found}, and this version reads up to {known}")]
    Newer {
        /// The format that was found.
        found: u32,
        /// The newest that is known.
        known: u32,
    },
    /// Records can be brought in only where there are none.
    #[error("the store is not empty")]
    NotEmpty,
    /// The backup was made by another machine's store.
    #[error("the backup is of another machine")]
    Foreign,
    /// What was promised is neither in the engine nor in base and log, as far as can be read.
    #[error("the store cannot be brought back by itself: {0}")]
    Lost(String),
    /// The engine never came back from being opened. The next start makes it anew.
    #[error(
        "the storage engine did not return when it was opened; begin again, and it is made anew"
    )]
    Hung,
    /// A sync failed: what was written before it may be lost. It is not retried, since the kernel
    /// reports such an error once.
    #[error("{0}")]
    NotSynced(String),
    /// A write or a sync failed: the process must restart, which replays the log.
    #[error("the store has failed: {0}")]
    Failed(String),
    /// The engine reported something of its own.
    #[error("the storage engine: {0}")]
    Engine(String),
    /// Input or output failed.
    #[error("{0}")]
    Io(String),
    /// The store is shutting down, or the plan panicked.
    #[error("the store gave no answer")]
    Closed,
}

impl StoreError {
    /// Whether nothing has changed and the same may succeed later, with more space or more descriptors.
    pub(super) const fn passes(&self) -> bool {
        matches!(self, Self::Full | Self::NoDescriptor(_))
    }

    pub(super) fn damaged_record(tree: &str, key: &[u8]) -> Self {
        let key = data_encoding::HEXLOWER.encode(key);
        Self::Damaged {
            place: format!("table {tree}, key {key}"),
            what: "is damaged".to_owned(),
        }
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1024 * 1024))
}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> Self {
        if is_failed_sync(&error) {
            return Self::NotSynced(error.to_string());
        }
        if is_out_of_descriptors(&error) {
            return Self::NoDescriptor(error.to_string());
        }
        match error.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::ReadOnlyFilesystem => Self::Full,
            _ => Self::Io(error.to_string()),
        }
    }
}
