//! Requests of sign-up, login and password reset (interface, parts 4.2 and 4.3).

use super::{Input, Payload};
use crate::domain::accounts::AccountsError;
use crate::http::combine::CombineResults;
use crate::http::error::{ApiError, ErrorCode};
use crate::http::strict_json::Object;
use crate::types::{BirthDate, Country, Email, Locale, Password, PersonName, TokenHash, TokenKind};

/// PUT auth/email.
pub struct SignUpRequest {
    /// The e-mail address.
    pub identity: Email,
    /// The password; its rules are the accounts'.
    pub access_key: Password,
    /// The name.
    pub name: Option<PersonName>,
    /// The language.
    pub locale: Option<Locale>,
    /// The country.
    pub country: Option<Country>,
    /// The day of birth.
    pub birth_date: Option<BirthDate>,
}

/// POST auth/email.
pub struct LoginRequest {
    /// The e-mail address.
    pub identity: Email,
    /// The password as given; the empty one is as wrong as any.
    pub access_key: Password,
}

/// POST send-reset-password, and send-reset-email.
pub struct SendResetRequest {
    /// The e-mail address.
    pub email: Email,
    /// The language of the mail. One that cannot be read is left out: 400 is for the address only.
    pub locale: Option<Locale>,
}

/// POST password/reset.
pub struct ResetRequest {
    /// The new password.
    pub password: Password,
    /// What the reset token is stored under.
    pub token: TokenHash,
}

/// A required password. One of over 256 characters has its own code.
pub(super) fn password(body: &Object, name: &'static str) -> Result<Password, ApiError> {
    Password::new(body.required_text(name)?).map_err(|why| {
        ApiError::new(ErrorCode::PasswordTooLong, why.0).for_member(name, ErrorCode::BAD_PASSWORD)
    })
}

/// A new password. That it is too short is found out here, so that it is reported with what else is wrong
/// with the form; the other rules are the accounts', which know the user.
fn new_password(body: &Object, name: &'static str, min: usize) -> Result<Password, ApiError> {
    let password = password(body, name)?;
    if password.length() < min {
        return Err(ApiError::from(AccountsError::PasswordTooShort { min })
            .for_member(name, ErrorCode::BAD_PASSWORD));
    }
    Ok(password)
}

impl SignUpRequest {
    pub(super) fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        let (identity, access_key, name, locale, country, birth_date) = (
            body.required("identity", Email::parse),
            new_password(&body, "accessKey", input.password_min),
            body.parsed("name", PersonName::parse),
            body.parsed("locale", Locale::parse),
            body.parsed("country", Country::parse),
            body.parsed("birthDate", BirthDate::parse),
        )
            .combine()?;
        Ok(Self {
            identity,
            access_key,
            name: name.filter(|name| !name.as_str().is_empty()),
            locale,
            country,
            birth_date,
        })
    }
}

impl LoginRequest {
    pub(super) fn parse(payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        let (identity, access_key) = (
            body.required("identity", Email::parse),
            password(&body, "accessKey"),
        )
            .combine()?;
        Ok(Self {
            identity,
            access_key,
        })
    }
}

impl SendResetRequest {
    pub(super) fn parse(payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        Ok(Self {
            email: body.required("email", Email::parse)?,
            locale: body
                .text("locale")
                .ok()
                .flatten()
                .and_then(|text| Locale::parse(text).ok()),
        })
    }
}

impl ResetRequest {
    pub(super) fn parse(payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        let token = body.required_text("token").and_then(|text| {
            TokenHash::hash_presented(TokenKind::Reset, text).ok_or_else(|| {
                ApiError::new(
                    ErrorCode::ResetTokenInvalid,
                    "the reset token is not valid, used or expired",
                )
            })
        });
        let (password, token) = (password(&body, "password"), token).combine()?;
        Ok(Self { password, token })
    }
}
