//! Errors of the partner service.

use crate::store::StoreError;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PartnersError {
    /// The name is empty, longer than 128 characters or has control characters.
    #[error("a name has 1 to 128 visible characters")]
    NameMalformed,
    #[error("another partner has this name")]
    NameInUse,
    #[error("no such partner")]
    NotFound,
    #[error("no such token")]
    TokenNotFound,
    #[error("a partner has at most {} tokens", super::TOKENS_MAX)]
    TooManyTokens,
    #[error(transparent)]
    Store(#[from] StoreError),
}
