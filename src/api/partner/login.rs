//! Sign-up, login, logout and password reset.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use serde::Serialize;
use tokio::time::{Instant, sleep_until};

use crate::partner::sessions::end_playback_of;
use playgate_domain::accounts::{
    AccountsError, AttemptKind, LoginAttempt, LoginClient, LoginOrigin, NewLogin, NewUser,
};
use playgate_domain::playback::EndReason;
use playgate_http::offload::pool;
use playgate_http::request::headers::SingleHeader;
use playgate_http::{
    ApiError, CombineResults, Context, ErrorCode, Input, Object, ParseRequest, PartnerAuth,
    Payload, Reply, UserAuth,
};
use playgate_services::Services;
use playgate_types::text::visible;
use playgate_types::{
    BirthDate, Country, Described, Email, Locale, LoginId, Password, PersonName, TokenHash,
    TokenKind, UserId,
};

crate::openapi::words::words! { LoginResult => r##"
[requests.SignUp]
identity = "Email: E-mail address. It may be used once per partner."
accessKey = "NewPassword: Password."
name = "PersonName?: Name."
locale = "Locale?: Language of mails and messages."
country = "Country?: Country."
birthDate = "CalendarDate?: Date of birth."

[requests.LogIn]
identity = "Email: E-mail address."
accessKey = "Password: Password."

[requests.SendReset]
email = "Email: E-mail address of the account."
locale = "any?: Language of the mail. An invalid value is ignored."

[requests.Reset]
password = "NewPassword: New password."
token = "string: Reset token from the mail."

[operations.sign_up]
summary = "Sign up"
text = '''
Creates a user of this partner and logs the user in. Spaces around the address are removed. Its domain may be international. The local part is ASCII and case-insensitive.'''
send = "SignUp: The new user."
returns."200" = "LoginResult: The user was created and logged in."
errors = ["PASSWORD_TOO_SHORT", "PASSWORD_TOO_LONG", "PASSWORD_TOO_COMMON", "EMAIL_IN_USE"]

[operations.login]
summary = "Log in"
text = '''
Creates a login session. An unknown address and a wrong password give the same status and body in the same time. Ten wrong passwords in 15 minutes lock the account's login for 1, then 2, 4, 8 and at most 15 minutes; a device (`Service-Play-DeviceId`, which may be sent with a login) or network that has logged in to the account before has a count of its own. A password reset works during the lock.'''
send = "LogIn: E-mail address and password."
returns."200" = "LoginResult: The user was logged in. `newUser` is false (the example shows a sign-up)."
errors = ["PASSWORD_TOO_LONG", "INVALID_CREDENTIALS"]

[operations.logout]
summary = "Log out"
text = "Ends the login session and the user's playback sessions. The token is refused from the next request on."
returns."200" = "EmptyObject: The session has ended."

[operations.send_reset]
summary = "Request a password reset mail"
text = '''
The response and its time are the same whether or not the user exists. The mail contains a token that works once, for 30 minutes by default. A newer request invalidates it. More than three mails an hour per account are silently not sent.'''
send = "SendReset: E-mail address of the account."
returns."200" = "EmptyObject: A mail was queued if the user exists."

[operations.send_reset_email]
summary = "Request a password reset mail (alternative path)"
text = "Same as `send_reset`. Some clients call this path."
like = "send_reset"

[operations.reset]
summary = "Set a new password with a reset token"
text = '''
Ends all sessions of the user and mails a notice. If the password breaks the rules, the token stays valid.'''
send = "Reset: The new password and the token."
returns."200" = "EmptyObject: The password was set."
errors = ["PASSWORD_TOO_SHORT", "PASSWORD_TOO_LONG", "PASSWORD_TOO_COMMON", "RESET_TOKEN_INVALID"]
"## }

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

/// Minimum response time of a request for a reset mail. An existing user costs a few more writes;
/// the response time must not reveal which addresses have an account.
const RESET_FLOOR: Duration = Duration::from_millis(25);

/// Random addition to the minimum, in microseconds. Timers tick once per millisecond and start
/// slightly later after more work. That difference is small, but without noise an attacker could
/// average it out.
const RESET_SPREAD: u64 = 10_000;

pub(crate) async fn sign_up(
    services: &Services,
    cx: &Context,
    auth: PartnerAuth,
    request: SignUpRequest,
) -> Result<Reply, ApiError> {
    let (partner, from, now) = (auth.partner(), cx.peer, cx.now);
    cx.trace.address(&request.identity);
    // Checked before the password is hashed, so that rejected attempts cost no hashing time.
    let kind = AttemptKind::SignUpAddress;
    services
        .accounts
        .check_address_rate(kind, Some(&partner), from, now)?;
    let new = NewUser {
        email: request.identity,
        name: request.name,
        country: request.country,
        locale: request.locale,
        birth_date: request.birth_date,
    };
    let password = request.access_key;
    let client = request.client;
    let origin = LoginOrigin { from, client };
    let pool = pool(services, cx, Some(partner));
    let opened = pool
        .guess(
            services
                .accounts
                .sign_up(partner, new, &password, origin, now, &pool),
        )
        .await
        .map_err(|error| {
            error
                .for_member("identity", &[ErrorCode::EmailInUse])
                .for_member("accessKey", ErrorCode::BAD_PASSWORD)
        })?;
    cx.trace.user(opened.user.id);
    Reply::json(&LoginResult::new(&opened, true))
}

pub(crate) async fn login(
    services: &Services,
    cx: &Context,
    auth: PartnerAuth,
    request: LoginRequest,
) -> Result<Reply, ApiError> {
    let (partner, now) = (auth.partner(), cx.now);
    let given = LoginAttempt {
        email: request.identity,
        password: request.access_key,
        from: cx.peer,
        client: request.client,
        trace: cx.trace.clone(),
    };
    cx.trace.address(&given.email);
    // The limits by account and address come before the hash: a locked account costs no processor time.
    services.accounts.check_login_rate(partner, &given, now)?;
    let pool = pool(services, cx, Some(partner));
    let opened = pool
        .guess(services.accounts.log_in(partner, given, now, &pool))
        .await?;
    // What the pushed-out logins play ends with them.
    let ends = |login| opened.displaced.contains(&login);
    end_playback_of(services, cx, &opened.user.id, ends).await?;
    Reply::json(&LoginResult::new(&opened, false))
}

pub(crate) async fn logout(
    services: &Services,
    cx: &Context,
    auth: UserAuth,
) -> Result<Reply, ApiError> {
    services
        .playback
        // Playback first: if this fails, the login still exists and the client can log out again.
        .end_all(&auth.user(), EndReason::SignedOut, cx.server_now)
        .await?;
    services
        .accounts
        .end_login(auth.user(), auth.login())
        .await?;
    Ok(Reply::empty_object())
}

pub(crate) async fn send_reset(
    services: &Services,
    cx: &Context,
    auth: PartnerAuth,
    request: SendResetRequest,
) -> Result<Reply, ApiError> {
    // A hash with random keys, so that an attacker cannot predict the delay.
    let chance = RandomState::new().hash_one(cx.now) % RESET_SPREAD;
    let respond_at = Instant::now() + RESET_FLOOR + Duration::from_micros(chance);
    let (partner, from, now) = (auth.partner(), cx.peer, cx.now);
    let SendResetRequest { email, locale } = request;
    services
        .accounts
        .send_reset(partner, &email, locale, from, now)
        .await?;
    // The response time must not tell whether the address has an account.
    sleep_until(respond_at).await;
    Ok(Reply::empty_object())
}

pub(crate) async fn reset(
    services: &Services,
    cx: &Context,
    auth: PartnerAuth,
    request: ResetRequest,
) -> Result<Reply, ApiError> {
    let (partner, from, now) = (auth.partner(), cx.peer, cx.now);
    let ResetRequest { password, token } = request;
    // Checked before the hash, as for a login.
    let kind = AttemptKind::ResetAddress;
    services
        .accounts
        .check_address_rate(kind, Some(&partner), from, now)?;
    let pool = pool(services, cx, Some(partner));
    pool.guess(
        services
            .accounts
            .complete_reset(Some(partner), token, &password, from, now, &pool),
    )
    .await
    .map_err(|error| error.for_member("password", ErrorCode::BAD_PASSWORD))?;
    Ok(Reply::empty_object())
}

#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LoginResult<'a> {
    /// Opaque User Authorization Token. Valid for 60 days after its last use and 365 days in all by default, and only while
    /// its login session exists.
    pub token: &'a str,
    /// Id of the user.
    pub user_id: UserId,
    /// Id of the login session.
    pub session_id: LoginId,
    /// Name of the user. Absent if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<&'a str>,
    /// E-mail address of the user, normalized.
    pub open_id: &'a str,
    /// Whether the user has an account. Always true.
    pub registered: bool,
    /// Whether this request created the user.
    pub new_user: bool,
}

impl<'a> LoginResult<'a> {
    pub(crate) fn new(opened: &'a NewLogin, new_user: bool) -> Self {
        Self {
            token: opened.token.reveal(),
            user_id: opened.user.id,
            session_id: opened.login,
            name: opened.user.name.as_ref().map(|name| name.as_str()),
            open_id: opened.user.email.as_str(),
            registered: true,
            new_user,
        }
    }
}
