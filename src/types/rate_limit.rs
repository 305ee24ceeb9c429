//! The error for a rate limit that a client has reached.

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the limit `{name}` is {limit} in {window} seconds; wait {retry_after}")]
pub struct LimitReached {
    pub name: &'static str,
    pub limit: u32,
    pub window: i64,
    /// Seconds to wait.
    pub retry_after: i64,
}
