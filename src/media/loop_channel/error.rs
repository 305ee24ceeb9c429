//! Errors of loop channels.

use std::io;

/// Why a loop channel cannot serve a path.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoopError {
    /// The manifest, track or segment does not exist, or not yet.
    #[error("no such manifest, track or segment")]
    Absent,
    /// The clip cannot be used as a loop; a message for the operator.
    #[error("{0}")]
    Unfit(String),
    #[error(transparent)]
    Disk(#[from] io::Error),
}

/// The clip cannot be used as a loop.
pub(super) fn unfit(why: impl Into<String>) -> LoopError {
    LoopError::Unfit(why.into())
}
