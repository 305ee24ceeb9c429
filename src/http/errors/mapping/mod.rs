//! Maps domain errors to API errors, one file per domain service.
//!
//! Texts of lower layers never become messages. They travel as the cause, which is only logged.

#![deny(clippy::wildcard_enum_match_arm)]

mod accounts;
mod backups;
mod catalog;
mod epg_sources;
mod fleet;
mod identities;
mod journal;
mod playback;
mod schedule;
mod telemetry;

pub use crate::errors::mapping::catalog::denial;

use crate::errors::api_error::{ApiError, ErrorCode};
use playgate_domain::StoreError;
use playgate_process::JobError;
use playgate_process::worker_pool::pool::PoolFull;

const MIB: u64 = 1024 * 1024;

impl From<PoolFull> for ApiError {
    fn from(_: PoolFull) -> Self {
        Self::overloaded()
    }
}

impl From<JobError> for ApiError {
    fn from(error: JobError) -> Self {
        match error {
            JobError::Failed => Self::internal(error),
            JobError::Shed => Self::overloaded(),
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Overloaded => Self::overloaded(),
            StoreError::NoRoom { needed, free, .. } => Self::new(
                ErrorCode::StoreUnavailable,
                format!(
                    "the disk has {} MiB free, and this needs about {} MiB; free disk space first",
                    free / MIB,
                    needed.div_ceil(MIB)
                ),
            )
            .with_cause(error),
            StoreError::NoDescriptor(_) => Self::new(
                ErrorCode::StoreUnavailable,
                "the service has no file descriptor left; try again shortly",
            )
            .with_cause(error),
            // Reads still work; only writes are refused.
            StoreError::Full
            | StoreError::Failed(_)
            | StoreError::NotSynced(_)
            | StoreError::Closed
            | StoreError::Moved
            | StoreError::Unsettled
            | StoreError::SharedLog(_)
            | StoreError::Io(_) => Self::new(
                ErrorCode::StoreUnavailable,
                "the store accepts no writes at present; try again shortly",
            )
            .with_cause(error),
            // The same change fails again, so the client must not retry it.
            StoreError::ChangeTooLarge => Self::new(
                ErrorCode::PayloadTooLarge,
                "the change is too large for a fleet; make it in smaller parts",
            )
            .with_cause(error),
            StoreError::InFleet => Self::new(
                ErrorCode::RestartNotPossible,
                "a member of a fleet cannot be restored alone; docs/fleet.md says how to restore a fleet",
            )
            .with_cause(error),
            StoreError::NotReplaceable(_) => Self::new(
                ErrorCode::RestartNotPossible,
                "the directory `store` of the data directory cannot be replaced: it is a mount point, a link, on another file system, or in a lower layer of an overlay (the log says which); stop the service, bring `store` and the other files of the data directory together on one file system, and mount or link the whole data directory",
            )
            .with_cause(error),
            // Faults of the installation and not of the load: a retry does not help.
            StoreError::Damaged { .. }
            | StoreError::TooLarge { .. }
            | StoreError::InUse
            | StoreError::Newer { .. }
            | StoreError::NewerRecord { .. }
            | StoreError::Older { .. }
            | StoreError::Foreign
            | StoreError::NotEmpty
            | StoreError::NotJoined
            | StoreError::Lost(_)
            | StoreError::Hung
            | StoreError::Engine(_) => Self::internal(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn store_errors_that_a_retry_cannot_end_do_not_ask_for_one() {
        for (error, status) in [
            (StoreError::ChangeTooLarge, 413),
            (StoreError::InFleet, 409),
        ] {
            let error = ApiError::from(error);
            assert_eq!(error.code().status().as_u16(), status);
            assert_eq!(error.retry_after(), None);
        }
    }
}
