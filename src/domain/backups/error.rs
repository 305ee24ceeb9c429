//! What can go wrong with backups, as situations that callers act on.

use std::path::PathBuf;

use crate::store::StoreError;

/// Why a backup could not be made, read or brought back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackupError {
    /// There is none of that name.
    #[error("there is no backup of that name")]
    NotFound,
    /// The directory, which is not ours to make, is not there.
    #[error(
        "the backup directory {} is not there: is its disk mounted? it is made once, by a person",
        .0.display()
    )]
    NoDirectory(PathBuf),
    /// The directory cannot be written: why.
    #[error("the backup directory {}: {why}", directory.display())]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// Whether its disk is full.
        full: bool,
        /// What is wrong with it.
        why: String,
    },
    /// It is not what was written: where, and what is wrong.
    #[error("{place}: {what}")]
    Damaged {
        /// The file.
        place: String,
        /// What is wrong with it.
        what: String,
    },
    /// It is of a newer version.
    #[error("the backup has format {found}, and this version reads up to {known}")]
    Newer {
        /// The format that was found.
        found: u32,
        /// The newest that is known.
        known: u32,
    },
    /// It was made by another machine's store.
    #[error("the backup is of another machine")]
    Foreign,
    /// The store failed, or there is no space.
    #[error(transparent)]
    Store(StoreError),
}

impl From<BackupError> for StoreError {
    /// As the store is told that a snapshot is not good.
    fn from(error: BackupError) -> Self {
        match error {
            BackupError::Damaged { place, what } => Self::Damaged { place, what },
            BackupError::Newer { found, known } => Self::Newer { found, known },
            BackupError::Foreign => Self::Foreign,
            BackupError::Store(error) => error,
            BackupError::NotFound | BackupError::NoDirectory(_) | BackupError::Directory { .. } => {
                Self::Io(error.to_string())
            }
        }
    }
}

impl From<StoreError> for BackupError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Damaged { place, what } => Self::Damaged { place, what },
            StoreError::Foreign => Self::Foreign,
            StoreError::Newer { found, known } => Self::Newer { found, known },
            other => Self::Store(other),
        }
    }
}
