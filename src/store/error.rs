//! Errors of the store, by what a caller can do about them.

use std::io;
use std::path::Path;

use crate::shared_log_error::{ENTRY_MAX, SharedLogError};
use playgate_process::files::{is_failed_sync, is_out_of_descriptors};

/// After `Full`, `NoDescriptor`, `Overloaded`, `Moved`, `SharedLog` and `ChangeTooLarge`, nothing was changed and reads
/// continue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    #[error("the disk is full or read-only")]
    Full,
    #[error(
        "not enough disk space: {place} has {} free, about {} needed; free some space and try again",
        mebibytes(*.free),
        mebibytes(*.needed)
    )]
    NoRoom {
        place: String,
        /// Required bytes, including those reserved for the service.
        needed: u64,
        free: u64,
    },
    #[error(
        "no file descriptor is free ({0}): raise LimitNOFILE of the service, or lower limits.connections"
    )]
    NoDescriptor(String),
    #[error("the store is overloaded: too many changes wait to be written; try again")]
    Overloaded,
    #[error("{place}: {what}")]
    Damaged { place: String, what: String },
    #[error("a record of `{table}` is too large")]
    TooLarge { table: String },
    #[error("another process uses this data directory")]
    InUse,
    #[error("the data directory has format {found}, and this version reads up to {known}")]
    Newer { found: u32, known: u32 },
    #[error("the data directory has format {found}, and this version writes format {known}")]
    Older { found: u32, known: u32 },
    #[error(
        "table {table} has a record of version {found}, and this version reads up to {known}: a newer version wrote it"
    )]
    NewerRecord { table: String, found: u8, known: u8 },
    /// The directory of the store cannot be renamed. Nothing was changed.
    #[error("{0}")]
    NotReplaceable(String),
    #[error("the store is not empty")]
    NotEmpty,
    #[error("the backup belongs to another installation")]
    Foreign,
    /// Promised commits are missing from the engine and from snapshot and WAL.
    #[error("the store cannot be recovered automatically: {0}")]
    Lost(String),
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
    #[error("the storage engine failed: {0}")]
    Engine(String),
    #[error("{0}")]
    Io(String),
    #[error("the store is closed or did not answer")]
    Closed,
    #[error("another member of the fleet is the owner")]
    Moved,
    /// The change may still take effect.
    #[error("the shared log of the fleet did not answer in time")]
    Unsettled,
    #[error(transparent)]
    SharedLog(#[from] SharedLogError),
    #[error("the change is too large for a fleet: {} after compression", mebibytes(ENTRY_MAX as u64))]
    ChangeTooLarge,
    #[error("the data directory belongs to a fleet")]
    InFleet,
    #[error("the data directory belongs to a fleet and has no store: joining did not finish")]
    NotJoined,
}

impl StoreError {
    pub(super) const fn is_transient(&self) -> bool {
        matches!(self, Self::Full | Self::NoDescriptor(_))
    }

    pub(super) fn damaged_file(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged {
            place: path.display().to_string(),
            what: what.into(),
        }
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
        // The order matters: a failed sync is fatal even if its cause is a full disk.
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

#[cfg(test)]
mod tests {
    use super::*;
    use playgate_process::data_file::{FileError, at};

    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    const ENOSPC: i32 = 28;
    const EDQUOT: i32 = 122;

    fn of_sync(errno: i32) -> io::Error {
        let error = io::Error::from_raw_os_error(errno);
        FileError::wrap("sync", Path::new("log/1"), true)(error)
    }

    #[test]
    fn failed_sync_is_not_treated_as_a_full_disk() {
        for errno in [ENOSPC, EDQUOT, 5, 30] {
            let error = of_sync(errno);
            assert!(is_failed_sync(&error));
            let StoreError::NotSynced(what) = StoreError::from(error) else {
                panic!("errno {errno} passes for something that may be tried again");
            };
            assert!(what.starts_with("failed to sync log/1: "), "{what}");
        }
        for errno in [ENOSPC, EDQUOT] {
            let written = io::Error::from_raw_os_error(errno);
            let written = at("write", Path::new("log/1"))(written);
            assert!(!is_failed_sync(&written));
            assert_eq!(StoreError::from(written), StoreError::Full);
        }
    }

    #[test]
    fn running_out_of_descriptors_is_a_separate_error() {
        for errno in [EMFILE, ENFILE] {
            let plain = io::Error::from_raw_os_error(errno);
            let named = at("make", Path::new("log/1"))(io::Error::from_raw_os_error(errno));
            for error in [plain, named] {
                let converted = StoreError::from(error);
                assert!(
                    matches!(converted, StoreError::NoDescriptor(_)),
                    "{converted:?}"
                );
            }
        }
    }
}
