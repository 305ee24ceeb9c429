//! Errors of granting and revoking offers.

use playgate_store::StoreError;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    #[error("the catalogue has no such offer")]
    OfferNotFound,
    #[error("no user has this id")]
    UserNotFound,
    #[error("the expiry is in the past")]
    ExpiryPast,
    /// All of them are active.
    #[error("the user has as many active grants as a user may have")]
    TooMany,
    #[error("the user has no active grant of this offer")]
    NotGranted,
    #[error(transparent)]
    Store(#[from] StoreError),
}
