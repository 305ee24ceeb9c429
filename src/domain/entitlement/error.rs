//! Errors of granting and revoking offers.

use crate::store::StoreError;

/// Why a grant was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    #[error("there is no such offer")]
    OfferNotFound,
    /// The user does not exist, or was erased.
    #[error("there is no such user")]
    UserNotFound,
    /// The expiry is not in the future.
    #[error("the expiry is in the past")]
    ExpiryPast,
    /// The user has the maximum number of grants, all of them active.
    #[error("the user has too many grants")]
    TooMany,
    /// The user has no active grant of the offer.
    #[error("the user has no such grant")]
    NotGranted,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
