//! Requests of sign-up, login and password reset (interface, parts 4.2 and 4.3).

use super::Payload;
use crate::http::error::{ApiError, ErrorCode};
use crate::http::json::Object;
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
        ApiError::new(ErrorCode::PasswordTooLong, why.0).of_member(name, ErrorCode::BAD_PASSWORD)
    })
}

impl SignUpRequest {
    pub(super) fn parse(payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        Ok(Self {
            identity: body.required("identity", Email::parse)?,
            access_key: password(&body, "accessKey")?,
            name: body.parsed("name", PersonName::parse)?,
            locale: body.parsed("locale", Locale::parse)?,
            country: body.parsed("country", Country::parse)?,
            birth_date: body.parsed("birthDate", BirthDate::parse)?,
        })
    }
}

impl LoginRequest {
    pub(super) fn parse(payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        Ok(Self {
            identity: body.required("identity", Email::parse)?,
            access_key: password(&body, "accessKey")?,
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
        let password = password(&body, "password")?;
        let token = TokenHash::of_presented(TokenKind::Reset, body.required_text("token")?)
            .ok_or_else(|| {
                ApiError::new(
                    ErrorCode::ResetTokenInvalid,
                    "the reset token is not valid, used or expired",
                )
            })?;
        Ok(Self { password, token })
    }
}
