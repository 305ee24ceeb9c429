//! Errors of backups, as cases that callers handle.

use std::path::PathBuf;

use playgate_store::StoreError;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackupError {
    #[error("no backup has this name")]
    NotFound,
    #[error(
        "the backup directory {} is missing: mount its disk, or create it once",
        .0.display()
    )]
    NoDirectory(PathBuf),
    #[error("the backup directory {}: {why}", directory.display())]
    Directory {
        directory: PathBuf,
        full: bool,
        why: String,
    },
    #[error("{place}: {what}")]
    Damaged { place: String, what: String },
    #[error("the backup has format {found}, and this version reads up to {known}")]
    Newer { found: u32, known: u32 },
    #[error("the backup belongs to another installation")]
    Foreign,
    #[error(transparent)]
    Store(StoreError),
}

impl From<BackupError> for StoreError {
    fn from(error: BackupError) -> Self {
        match error {
            BackupError::Damaged { place, what } => Self::Damaged { place, what },
            BackupError::Newer { found, known } => Self::Newer { found, known },
            BackupError::Foreign => Self::Foreign,
            BackupError::Store(error) => error,
            // The store knows no backup directory.
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
