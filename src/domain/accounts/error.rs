//! What can go wrong with accounts.

use super::attempt::PoolError;
use super::hashing::HashingFailed;
use super::throttle::Refused;
use crate::domain::partners::PartnersError;
use crate::store::StoreError;
use crate::types::{LimitReached, Malformed};

/// Why an account's verb could not be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccountsError {
    /// The partner has a user of this address.
    #[error("the address has an account with this partner")]
    EmailInUse,
    /// The partner was disabled or removed while its request ran.
    #[error("the partner is disabled or removed")]
    PartnerGone,
    /// No such partner.
    #[error("no such partner")]
    PartnerNotFound,
    /// The user is unknown, shut, or the password wrong: one and the same.
    #[error("the user is unknown or the password wrong")]
    InvalidCredentials,
    /// The present password, asked for again, is wrong.
    #[error("the password is wrong")]
    PasswordWrong,
    /// The present password is needed.
    #[error("the password is needed")]
    PasswordRequired,
    /// The new password is too short.
    #[error("a password has at least {min} characters")]
    PasswordTooShort {
        /// The fewest characters.
        min: usize,
    },
    /// The new password is one of those that are tried first.
    #[error("the password is one of those that are tried first")]
    PasswordTooCommon,
    /// Too many attempts.
    #[error("too many attempts: {0}")]
    TooManyAttempts(LimitReached),
    /// The reset token is unknown, used, expired or another partner's: alike.
    #[error("the reset token is not valid")]
    ResetTokenInvalid,
    /// No such user.
    #[error("no such user")]
    UserNotFound,
    /// The user has no such login session.
    #[error("no such login session")]
    LoginNotFound,
    /// A value is not one that the field takes.
    #[error("{field}: {why}")]
    FieldMalformed {
        /// The field.
        field: &'static str,
        /// What it takes.
        why: Malformed,
    },
    /// The PIN stands in the way.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// The stored hash or the configured cost is none that argon2 takes.
    #[error("a hash cannot be computed")]
    HashUnusable,
    /// The pool that hashes did not do it.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The store failed.
    #[error(transparent)]
    Store(StoreError),
}

/// Why a PIN was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PinError {
    /// None was given, and one is needed.
    #[error("the PIN is needed")]
    Required,
    /// The user has none.
    #[error("no PIN has been set")]
    NotSet,
    /// It is wrong.
    #[error("the PIN is wrong; {attempts_left} attempts are left")]
    Wrong {
        /// How many more may be wrong before entry is locked.
        attempts_left: u32,
    },
    /// Entry is locked.
    #[error("PIN entry is locked: {0}")]
    Locked(LimitReached),
    /// The stored hash or the configured cost is none that argon2 takes.
    #[error("a hash cannot be computed")]
    HashUnusable,
    /// The pool that hashes did not do it.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<StoreError> for AccountsError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<PartnersError> for AccountsError {
    fn from(error: PartnersError) -> Self {
        match error {
            PartnersError::Store(error) => Self::Store(error),
            PartnersError::NotFound
            | PartnersError::NameMalformed
            | PartnersError::NameInUse
            | PartnersError::TokenNotFound
            | PartnersError::TooManyTokens => Self::PartnerNotFound,
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
