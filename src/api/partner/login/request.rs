//! Requests of sign-up, login and password reset. `docs/interface.md` describes the routes.

use playgate_domain::accounts::{AccountsError, LoginClient};
use playgate_http::errors::api_error::{ApiError, CombineResults, ErrorCode};
use playgate_http::request::headers::SingleHeader;
use playgate_http::request::object::Object;
use playgate_http::request::payload::Payload;
use playgate_http::routing::endpoint::{Input, ParseRequest};
use playgate_types::text::visible;
use playgate_types::{
    BirthDate, Country, Email, Locale, Password, PersonName, TokenHash, TokenKind,
};

pub(crate) struct SignUpRequest {
    pub identity: Email,
    pub access_key: Password,
    pub name: Option<PersonName>,
    pub locale: Option<Locale>,
    pub country: Option<Country>,
    pub birth_date: Option<BirthDate>,
    pub client: LoginClient,
}

pub(crate) struct LoginRequest {
    pub identity: Email,
    pub access_key: Password,
    pub client: LoginClient,
}

pub(crate) struct SendResetRequest {
    pub email: Email,
    pub locale: Option<Locale>,
}

pub(crate) struct ResetRequest {
    pub password: Password,
    pub token: TokenHash,
}

pub(crate) fn password(body: &Object, name: &'static str) -> Result<Password, ApiError> {
    Password::new(body.required_text(name)?).map_err(|why| {
        ApiError::new(ErrorCode::PasswordTooLong, why.0).for_member(name, ErrorCode::BAD_PASSWORD)
    })
}

fn new_password(body: &Object, name: &'static str, min: usize) -> Result<Password, ApiError> {
    let password = password(body, name)?;
    // Checked here, so that it is reported with the other mistakes of the body. The remaining rules depend on
    // the user.
    if password.length() < min {
        return Err(ApiError::from(AccountsError::PasswordTooShort { min })
            .for_member(name, ErrorCode::BAD_PASSWORD));
    }
    Ok(password)
}

impl ParseRequest for SignUpRequest {
    fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
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
            // A form sends an empty field for no name.
            name: name.filter(|name| !name.as_str().is_empty()),
            locale,
            country,
            birth_date,
            client: client(input),
        })
    }
}

/// Reads what the client says about itself. Nothing of it is required, and nothing refuses a login.
fn client(input: &Input<'_>) -> LoginClient {
    const TEXT_MAX: usize = 200;
    let read = |header: SingleHeader<'_>| {
        let text = std::str::from_utf8(header.value()?.as_bytes()).ok()?;
        let text: String = visible(text).chars().take(TEXT_MAX).collect();
        Some(text).filter(|text| !text.is_empty())
    };
    LoginClient {
        program: read(input.heads.user_agent),
        device: read(input.heads.play.device_id),
    }
}

impl ParseRequest for LoginRequest {
    fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        let (identity, access_key) = (
            body.required("identity", Email::parse),
            password(&body, "accessKey"),
        )
            .combine()?;
        Ok(Self {
            identity,
            access_key,
            client: client(input),
        })
    }
}

impl ParseRequest for SendResetRequest {
    fn parse(_input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        Ok(Self {
            email: body.required("email", Email::parse)?,
            // Clients expect 400 for the address only.
            locale: body
                .text("locale")
                .ok()
                .flatten()
                .and_then(|text| Locale::parse(text).ok()),
        })
    }
}

impl ParseRequest for ResetRequest {
    fn parse(_input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        // Malformed text gets the same answer as an unknown token.
        let token = body.required_text("token").and_then(|text| {
            let found = TokenHash::find_pasted(TokenKind::Reset, text);
            found.map(|(_, hash)| hash).ok_or_else(|| {
                ApiError::new(
                    ErrorCode::ResetTokenInvalid,
                    "the reset token is unknown, already used or expired; request a new one",
                )
            })
        });
        let (password, token) = (password(&body, "password"), token).combine()?;
        Ok(Self { password, token })
    }
}
