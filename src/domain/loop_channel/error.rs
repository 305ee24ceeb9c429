//! Why a loop has nothing to answer.

use std::io;

/// Why a loop has nothing to answer.
#[derive(Debug, thiserror::Error)]
pub enum LoopError {
    /// There is no such manifest, track or segment, or not yet.
    #[error("there is nothing of that name")]
    Absent,
    /// The clip cannot be played round: a sentence for the operator.
    #[error("{0}")]
    Unfit(String),
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] io::Error),
}

/// A clip that cannot be played round.
pub(super) fn unfit(why: impl Into<String>) -> LoopError {
    LoopError::Unfit(why.into())
}
