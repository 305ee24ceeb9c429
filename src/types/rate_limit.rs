//! What a client may be told of a limit that it has reached.

/// So much, in so many seconds, and no more for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the limit `{name}` is {limit} in {window} seconds; wait {retry_after}")]
pub struct LimitReached {
    /// Its name, as clients see it.
    pub name: &'static str,
    /// How much may be.
    pub limit: u32,
    /// In how many seconds.
    pub window: i64,
    /// Seconds to wait.
    pub retry_after: i64,
}
