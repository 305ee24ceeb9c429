//! Whether a member of a fleet knows the newest state.

use std::sync::Arc;

/// Whether the state from which an answer was made is the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// It is the newest state.
    Last,
    /// Not known yet; a later check may know.
    Unknown,
    /// Another member may be the owner by now.
    Lost,
}

pub type FreshnessCheck = Arc<dyn Fn() -> Freshness + Send + Sync>;
