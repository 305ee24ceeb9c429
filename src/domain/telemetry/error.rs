//! What can go wrong with telemetry, as situations that callers act on.

use std::io;

use crate::store::{StoreError, is_failed_sync};
use crate::types::LimitReached;

/// Why telemetry could not be taken, read or erased.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TelemetryError {
    /// There is no space, or the file system is read-only. Nothing was changed.
    #[error("the disk is full or read-only")]
    Full,
    /// The user's account was erased while the request ran.
    #[error("the user is gone")]
    UserGone,
    /// The sender, or all together, have used up what may be kept. Nothing was changed.
    #[error("a budget of telemetry is used up: {0}")]
    OverBudget(LimitReached),
    /// Too much is waiting to be written.
    #[error("too much is waiting to be written")]
    Overloaded,
    /// A write or sync failed: the process must restart.
    #[error("the log of events has failed: {0}")]
    Failed(String),
    /// Something could not be read.
    #[error("{0}")]
    Io(String),
}

impl From<io::Error> for TelemetryError {
    fn from(error: io::Error) -> Self {
        if is_failed_sync(&error) {
            Self::Failed(error.to_string())
        } else if Self::is_of_space(error.kind()) {
            Self::Full
        } else {
            Self::Io(error.to_string())
        }
    }
}

impl TelemetryError {
    /// Whether the disk is full or read-only, which passes.
    pub(super) const fn is_of_space(kind: io::ErrorKind) -> bool {
        matches!(
            kind,
            io::ErrorKind::StorageFull
                | io::ErrorKind::QuotaExceeded
                | io::ErrorKind::ReadOnlyFilesystem
        )
    }
}

impl From<StoreError> for TelemetryError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Full | StoreError::NoRoom { .. } => Self::Full,
            StoreError::Overloaded | StoreError::NoDescriptor(_) => Self::Overloaded,
            StoreError::Failed(_) | StoreError::NotSynced(_) | StoreError::Closed => {
                Self::Failed(error.to_string())
            }
            StoreError::Damaged { .. }
            | StoreError::TooLarge { .. }
            | StoreError::InUse
            | StoreError::Newer { .. }
            | StoreError::Foreign
            | StoreError::NotEmpty
            | StoreError::Lost(_)
            | StoreError::Hung
            | StoreError::Engine(_)
            | StoreError::Io(_) => Self::Io(error.to_string()),
        }
    }
}
