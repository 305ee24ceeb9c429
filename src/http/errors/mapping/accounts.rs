//! Maps errors of accounts to API errors.

use crate::errors::api_error::{ApiError, Details, ErrorCode};
use playgate_domain::accounts::{AccountsError, PinError, PoolError};

impl From<AccountsError> for ApiError {
    fn from(error: AccountsError) -> Self {
        use AccountsError as E;
        match error {
            E::EmailInUse => Self::new(
                ErrorCode::EmailInUse,
                "an account with this e-mail address already exists",
            ),
            // The partner was removed after the request had been authenticated.
            E::PartnerGone => Self::new(
                ErrorCode::PartnerTokenInvalid,
                "the partner token has been revoked",
            ),
            E::PartnerNotFound => Self::new(ErrorCode::PartnerNotFound, "there is no such partner"),
            E::InvalidCredentials => Self::new(
                ErrorCode::InvalidCredentials,
                "the user is unknown or the password is wrong",
            ),
            E::PasswordWrong => {
                Self::new(ErrorCode::PasswordWrong, "the current password is wrong")
            }
            E::PasswordRequired => Self::field("password", "is required to set the first PIN"),
            E::PasswordTooShort { min } => Self::new(
                ErrorCode::PasswordTooShort,
                format!("a password has at least {min} characters"),
            ),
            E::PasswordTooCommon => Self::new(
                ErrorCode::PasswordTooCommon,
                "the password is too common or based on the user's e-mail address or name",
            ),
            E::TooManyAttempts(limit) => Self::new(
                ErrorCode::TooManyAttempts,
                "too many attempts; see Retry-After",
            )
            .with_limit(limit),
            E::ResetTokenInvalid => Self::new(
                ErrorCode::ResetTokenInvalid,
                "the reset token is unknown, already used or expired; request a new one",
            ),
            E::UserNotFound => Self::new(ErrorCode::UserNotFound, "there is no such user"),
            E::LoginNotFound => Self::new(ErrorCode::SessionNotFound, "there is no such session"),
            E::FieldMalformed { field, why } => Self::field(field, why.0),
            E::Pin(pin) => pin.into(),
            E::HashUnusable => Self::internal(error),
            E::Pool(error) => error.into(),
            E::Store(error) => error.into(),
        }
    }
}

impl From<PoolError> for ApiError {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Full => Self::overloaded(),
            PoolError::Lost => Self::internal(error),
        }
    }
}

impl From<PinError> for ApiError {
    fn from(error: PinError) -> Self {
        match error {
            PinError::Required => {
                Self::new(ErrorCode::PinCodeRequired, "pinCode: the PIN is required")
            }
            // Distinct from `Required`: without a PIN, prompting is useless and the user should have one
            // mailed.
            PinError::NotSet => Self::new(
                ErrorCode::PinCodeRequired,
                "pinCode: the PIN is required, but the user has none; have one mailed",
            ),
            PinError::Wrong { attempts_left } => {
                Self::new(ErrorCode::PinCodeWrong, "pinCode: the PIN is wrong")
                    .with_details(Details::Attempts { attempts_left })
            }
            PinError::Locked(limit) => Self::new(
                ErrorCode::PinCodeLocked,
                "too many wrong PINs; see Retry-After",
            )
            .with_limit(limit),
            PinError::HashUnusable => Self::internal(error),
            PinError::Pool(error) => error.into(),
            PinError::Store(error) => error.into(),
        }
    }
}
