//! Errors of accounts and PINs.

use super::attempt::PoolError;
use super::hashing::HashingFailed;
use super::throttle::Refused;
use crate::identities::IdentityError;
use playgate_store::StoreError;
use playgate_types::{LimitReached, Malformed};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccountsError {
    #[error("an account with this e-mail address already exists with this partner")]
    EmailInUse,
    #[error("the partner is disabled or removed")]
    PartnerGone,
    #[error("no such partner")]
    PartnerNotFound,
    /// Unknown user, disabled account or wrong password; deliberately not distinguished.
    #[error("the user is unknown or the password wrong")]
    InvalidCredentials,
    #[error("the password is wrong")]
    PasswordWrong,
    #[error("the current password is required")]
    PasswordRequired,
    #[error("a password has at least {min} characters")]
    PasswordTooShort { min: usize },
    /// In the list of common passwords, or derived from known names.
    #[error("the password is too common")]
    PasswordTooCommon,
    #[error("too many attempts: {0}")]
    TooManyAttempts(LimitReached),
    /// Unknown, used, expired or of another partner; deliberately not distinguished.
    #[error("the reset token is unknown, used or expired")]
    ResetTokenInvalid,
    #[error("no such user")]
    UserNotFound,
    #[error("no such login session")]
    LoginNotFound,
    #[error("{field}: {why}")]
    FieldMalformed { field: &'static str, why: Malformed },
    #[error(transparent)]
    Pin(#[from] PinError),
    /// The stored hash or the configured cost is not valid for argon2.
    #[error("failed to compute the hash: invalid stored hash or cost")]
    HashUnusable,
    #[error(transparent)]
    Pool(#[from] PoolError),
    #[error(transparent)]
    Store(StoreError),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PinError {
    #[error("the PIN is required")]
    Required,
    #[error("no PIN has been set")]
    NotSet,
    #[error("the PIN is wrong; attempts left before it is locked: {attempts_left}")]
    Wrong { attempts_left: u32 },
    #[error("PIN entry is locked: {0}")]
    Locked(LimitReached),
    #[error("failed to compute the hash: invalid stored hash or cost")]
    HashUnusable,
    #[error(transparent)]
    Pool(#[from] PoolError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<StoreError> for AccountsError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<IdentityError> for AccountsError {
    fn from(error: IdentityError) -> Self {
        match error {
            IdentityError::Store(error) => Self::Store(error),
            // Accounts only disable and remove partners, which fails only for a missing one.
            IdentityError::NotFound(_)
            | IdentityError::NameMalformed
            | IdentityError::LabelMalformed
            | IdentityError::NameInUse(_)
            | IdentityError::TokenNotFound(_)
            | IdentityError::TooManyTokens(_) => Self::PartnerNotFound,
        }
    }
}

impl From<HashingFailed> for AccountsError {
    fn from(_: HashingFailed) -> Self {
        Self::HashUnusable
    }
}

impl From<HashingFailed> for PinError {
    fn from(_: HashingFailed) -> Self {
        Self::HashUnusable
    }
}

impl From<Refused> for AccountsError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::TooMany(limit) => Self::TooManyAttempts(limit),
            Refused::Store(error) => Self::Store(error),
        }
    }
}

impl From<Refused> for PinError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::TooMany(limit) => Self::Locked(limit),
            Refused::Store(error) => Self::Store(error),
        }
    }
}
