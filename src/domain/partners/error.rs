//! What can go wrong with partners.

use crate::store::StoreError;

/// Why a partner's verb could not be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PartnersError {
    /// The name is empty, too long or has control characters.
    #[error("a name has 1 to 128 visible characters")]
    NameMalformed,
    /// Another partner has the name.
    #[error("another partner has this name")]
    NameInUse,
    /// No partner of that id or name.
    #[error("no such partner")]
    NotFound,
    /// The partner has no such token.
    #[error("no such token")]
    TokenNotFound,
    /// The partner has as many tokens as one may have.
    #[error("a partner has at most {} tokens", super::TOKENS_MAX)]
    TooManyTokens,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
