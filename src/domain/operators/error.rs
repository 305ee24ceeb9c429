//! What can go wrong with operators.

use crate::store::StoreError;

/// Why an operator's verb could not be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OperatorsError {
    /// The name is empty, too long or has control characters.
    #[error("a name has 1 to 128 characters, none of them a control character")]
    NameMalformed,
    /// Another operator has the name.
    #[error("another operator has this name")]
    NameInUse,
    /// No operator of that id or name.
    #[error("no such operator")]
    NotFound,
    /// The operator has no such token.
    #[error("no such token")]
    TokenNotFound,
    /// The operator has as many tokens as one may have.
    #[error("an operator has at most {} tokens", super::TOKENS_MAX)]
    TooManyTokens,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
