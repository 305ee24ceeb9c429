//! Why a request to another member failed.

use std::io;

#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    #[error("{address}: {error}")]
    Connect { address: String, error: io::Error },
    #[error("{address} has another key: the invitation is for another fleet")]
    OtherKey { address: String },
    #[error("{address} has too many connections")]
    Busy { address: String },
    #[error("{address} refuses: {why}")]
    Refused { address: String, why: String },
    #[error("{0}")]
    File(io::Error),
}
