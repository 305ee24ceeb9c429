//! Errors of the operator service.

use crate::store::StoreError;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OperatorsError {
    /// The name is empty, longer than 128 characters or has control characters.
    #[error("a name has 1 to 128 characters, none of them a control character")]
    NameMalformed,
    #[error("another operator has this name")]
    NameInUse,
    #[error("no such operator")]
    NotFound,
    #[error("no such token")]
    TokenNotFound,
    #[error("an operator has at most {} tokens", super::TOKENS_MAX)]
    TooManyTokens,
    #[error(transparent)]
    Store(#[from] StoreError),
}
