//! What can go wrong in the store, as situations that callers act on.

use std::io;

/// Why the store could not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// There is no space, or the file system is read-only. Reads go on; nothing was changed.
    #[error("the disk is full or read-only")]
    Full,
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
    pub(super) fn damaged_record(tree: &str, key: &[u8]) -> Self {
        let key = data_encoding::HEXLOWER.encode(key);
        Self::Damaged {
            place: format!("table {tree}, key {key}"),
            what: "is damaged".to_owned(),
        }
    }
}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::ReadOnlyFilesystem => Self::Full,
            _ => Self::Io(error.to_string()),
        }
    }
}
