//! Errors of loop channels.

use std::io;

#[derive(Debug, thiserror::Error)]
pub enum LoopError {
    #[error("no such manifest, track or segment")]
    Absent,
    #[error("{0}")]
    Unfit(String),
    #[error(transparent)]
    Disk(#[from] io::Error),
}

pub(super) fn unfit(why: impl Into<String>) -> LoopError {
    LoopError::Unfit(why.into())
}
