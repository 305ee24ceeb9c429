//! Why a grant was not changed.

use crate::store::StoreError;

/// Why a grant was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// The catalogue has no such offer.
    #[error("there is no such offer")]
    OfferNotFound,
    /// There is no such user, or not any more.
    #[error("there is no such user")]
    UserNotFound,
    /// It would end before it begins.
    #[error("the expiry is in the past")]
    ExpiryPast,
    /// The user has as many grants as there may be, all of them active.
    #[error("the user has too many grants")]
    TooMany,
    /// The user has no active grant of the offer.
    #[error("the user has no such grant")]
    NotGranted,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
