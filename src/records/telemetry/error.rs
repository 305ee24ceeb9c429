//! Errors of telemetry.

use std::io;

use playgate_process::files::is_failed_sync;
use playgate_store::StoreError;
use playgate_types::LimitReached;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TelemetryError {
    /// Nothing was changed.
    #[error("the disk is full or read-only")]
    Full,
    #[error("the user no longer exists")]
    UserGone,
    /// Nothing was changed.
    #[error("telemetry budget exhausted: {0}")]
    OverBudget(LimitReached),
    #[error("the write queue is full; retry later")]
    Overloaded,
    /// Nothing was changed.
    #[error("the disk is too slow: earlier events are not synced yet")]
    SyncOverdue,
    /// A write or sync failed: the process must restart.
    #[error("telemetry log failed: {0}")]
    Failed(String),
    #[error("{0}")]
    Io(String),
}

impl From<io::Error> for TelemetryError {
    fn from(error: io::Error) -> Self {
        // First: a failed sync is fatal even if a full disk caused it.
        if is_failed_sync(&error) {
            Self::Failed(error.to_string())
        } else if Self::is_out_of_space(error.kind()) {
            Self::Full
        } else {
            Self::Io(error.to_string())
        }
    }
}

impl TelemetryError {
    pub(super) const fn is_out_of_space(kind: io::ErrorKind) -> bool {
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
            StoreError::Overloaded
            | StoreError::NoDescriptor(_)
            | StoreError::Moved
            | StoreError::Unsettled
            | StoreError::SharedLog(_)
            | StoreError::ChangeTooLarge => Self::Overloaded,
            StoreError::Failed(_) | StoreError::NotSynced(_) | StoreError::Closed => {
                Self::Failed(error.to_string())
            }
            StoreError::Damaged { .. }
            | StoreError::TooLarge { .. }
            | StoreError::InUse
            | StoreError::Newer { .. }
            | StoreError::NewerRecord { .. }
            | StoreError::Older { .. }
            | StoreError::Foreign
            | StoreError::NotReplaceable(_)
            | StoreError::NotEmpty
            | StoreError::InFleet
            | StoreError::NotJoined
            | StoreError::Lost(_)
            | StoreError::Hung
            | StoreError::Engine(_)
            | StoreError::Io(_) => Self::Io(error.to_string()),
        }
    }
}
