//! Errors of granting and revoking offers.

use crate::store::StoreError;

/// Why a grant was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    #[error("the catalogue has no such offer")]
    OfferNotFound,
    /// The user does not exist, or was erased.
    #[error("user not found")]
    UserNotFound,
    /// The expiry is not in the future.
    #[error("the expiry is in the past")]
    ExpiryPast,
    /// The user has the maximum number of grants, all of them active.
    #[error("the user has the maximum number of grants")]
    TooMany,
    /// The user has no active grant of the offer.
    #[error("the user has no active grant of this offer")]
    NotGranted,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
