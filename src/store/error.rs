//! Errors of the store, by what a caller can do about them.

use std::io;

use super::files::{is_failed_sync, is_out_of_descriptors};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// No space, or a read-only file system. Reads continue; nothing was changed.
    #[error("the disk is full or read-only")]
    Full,
    /// A task needs more disk space than is free. Nothing was changed.
    #[error(
        "{place} has {} free, and this needs about {}: make room first",
        mebibytes(*.free),
        mebibytes(*.needed)
    )]
    NoRoom {
        /// The directory.
        place: String,
        /// Required bytes, including those reserved for the service.
        needed: u64,
        /// Free bytes.
        free: u64,
    },
    /// No file descriptor is free. Reads continue; nothing was changed.
    #[error(
        "no file descriptor is free ({0}): raise LimitNOFILE of the service, or lower limits.connections"
    )]
    NoDescriptor(String),
    /// The queue of the writer is full. Nothing was changed.
    #[error("too many commits are waiting")]
    Overloaded,
    /// A record, an index entry or a WAL segment is damaged.
    #[error("{place}: {what}")]
    Damaged {
        /// Table and key, or the file.
        place: String,
        what: String,
    },
    /// A record or commit exceeds its size limit.
    #[error("a record of `{table}` is too large")]
    TooLarge { table: String },
    /// Another process holds the lock of the data directory.
    #[error("another process uses this data directory")]
    InUse,
    /// A newer version wrote the data.
    #[error("the data directory has format {found}, and this version reads up to {known}")]
    Newer {
        found: u32,
        /// The newest format that this version supports.
        known: u32,
    },
    /// An import needs an empty store.
    #[error("the store is not empty")]
    NotEmpty,
    /// The backup belongs to another store.
    #[error("the backup is of another machine")]
    Foreign,
    /// Promised commits are missing from the engine and from snapshot and WAL.
    #[error("the store cannot be recovered automatically: {0}")]
    Lost(String),
    /// Opening the engine did not return. The next start rebuilds it.
    #[error(
        "the storage engine did not respond while it was opened; restart the service to rebuild it"
    )]
    Hung,
    /// A sync failed, so earlier writes may be lost. It must not be retried, since the kernel
    /// reports such an error only once.
    #[error("{0}")]
    NotSynced(String),
    /// A write or sync failed. The process must restart, which replays the WAL.
    #[error("the store has failed: {0}")]
    Failed(String),
    /// An error of the engine.
    #[error("the storage engine: {0}")]
    Engine(String),
    /// Any other I/O error.
    #[error("{0}")]
    Io(String),
    /// The store is closing, or the transaction panicked.
    #[error("the store is closed or did not answer")]
    Closed,
}

impl StoreError {
    /// Returns whether nothing was changed and a retry may succeed with more space or descriptors.
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
