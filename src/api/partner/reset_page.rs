//! The page that a reset mail links to.
//!
//! The page needs no partner token: a token in a public page would be public. The reset token (256
//! random bits, single use) identifies the user. The rate limits are those of the partners' route.

use http::StatusCode;
use http::header::RETRY_AFTER;

use playgate_domain::accounts::AttemptKind;
use playgate_http::offload::{cold_for, pool};
use playgate_http::response::pages::{ResetForm, ResetFormError, ResetPageView};
use playgate_http::{
    Anyone, ApiError, Context, ErrorCode, HttpState, Input, ParseRequest, Payload, Query, Reply,
};
use playgate_services::Services;
use playgate_types::{Password, TokenHash, TokenKind};

crate::openapi::words::words! { => r##"
[requests.ResetForm]
token = "string: Reset token from the link."
password = "NewPassword: New password."
again = "string: The new password again."

[operations.reset_page]
summary = "Password reset page"
text = "The page that the link in a reset mail opens, in the browser's language. Opening it does not use the token up."
query.token = "string?: Reset token from the link."
returns."200" = { text = "The form.", media = ["text/html; charset=utf-8"], example = "<!doctype html>\n<html lang=\"en\">\n<title>Choose a new password</title>\n" }
errors = ["RESET_TOKEN_INVALID"]

[operations.reset_form]
summary = "Submit the password reset page"
text = "Sets the password, as `reset` does, and answers with a page. If the password is not accepted, the page is the form again."
send = { text = "The form as a browser sends it.", media = ["application/x-www-form-urlencoded"], of = "ResetForm" }
returns."200" = { text = "The password was set.", media = ["text/html; charset=utf-8"], example = "<!doctype html>\n<html lang=\"en\">\n<title>Choose a new password</title>\n" }
errors = ["PASSWORD_TOO_SHORT", "PASSWORD_TOO_LONG", "PASSWORD_TOO_COMMON", "RESET_TOKEN_INVALID"]
"## }

pub(crate) struct LinkToken {
    pub text: String,
    pub hash: TokenHash,
}

/// `GET /reset`. The request checks the token without using it up, because mail scanners open links
/// before users do.
pub(crate) struct ResetPageRequest {
    pub token: LinkToken,
}

/// `POST /reset`. The handler validates the passwords, so that a mistake shows the form again.
pub(crate) struct ResetFormRequest {
    pub token: LinkToken,
    pub password: String,
    pub again: String,
    /// Shown again after a mistake, and not used otherwise: the token decides on the account.
    pub username: String,
}

fn token(query: &Query<'_>) -> Result<LinkToken, ApiError> {
    let text = query.one("token")?.unwrap_or_default();
    // Mail programs break long links, and people paste them with what surrounds them.
    match TokenHash::find_pasted(TokenKind::Reset, &text) {
        Some((text, hash)) => Ok(LinkToken { text, hash }),
        None => Err(ApiError::new(
            ErrorCode::ResetTokenInvalid,
            "the reset token is missing in the address",
        )),
    }
}

impl ParseRequest for ResetPageRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            token: token(&input.query)?,
        })
    }
}

impl ParseRequest for ResetFormRequest {
    fn parse(_input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let body = payload.whole()?;
        let text = std::str::from_utf8(&body)
            .map_err(|_| ApiError::malformed("the body is not a form"))?;
        let form = Query::new(text);
        let field = |name| Ok::<_, ApiError>(form.one(name)?.unwrap_or_default().into_owned());
        Ok(Self {
            token: token(&form)?,
            password: field("password")?,
            again: field("again")?,
            username: field("username")?,
        })
    }
}

pub(crate) async fn show(
    http: &HttpState,
    cx: &Context,
    _: Anyone,
    request: ResetPageRequest,
) -> Result<Reply, ApiError> {
    // Checked already here, so that a user with an old mail learns it before choosing a password.
    let LinkToken { text, hash } = request.token;
    let (accounts, now) = (http.services.accounts.clone(), cx.now);
    // The token is only looked up here: mail scanners open links before users do.
    let account = cold_for(&http.services, cx, None, move || {
        accounts.check_reset_token(&hash, now)
    })
    .await?;
    let view = form(http, &text, account.as_str(), None);
    Ok(page(http, cx, StatusCode::OK, &view))
}

pub(crate) async fn complete(
    http: &HttpState,
    cx: &Context,
    _: Anyone,
    request: ResetFormRequest,
) -> Result<Reply, ApiError> {
    let ResetFormRequest {
        token,
        password,
        again,
        username,
    } = request;
    if password != again {
        let fault = Some(ResetFormError::Mismatch);
        let view = form(http, &token.text, &username, fault);
        return Ok(page(http, cx, StatusCode::BAD_REQUEST, &view));
    }
    match set_password(&http.services, cx, token.hash, &password).await {
        Ok(()) => Ok(page(http, cx, StatusCode::OK, &ResetPageView::Done)),
        Err(error) if is_correctable(error.code()) => {
            // In the browser's language, because the user is not logged in.
            let language = accept_language(cx);
            let why = http.messages.pick(error.code(), language, None);
            let fault = Some(ResetFormError::Message(why));
            let view = form(http, &token.text, &username, fault);
            let reply = page(http, cx, error.code().status(), &view);
            Ok(match error.retry_after() {
                Some(seconds) => reply.with_header(RETRY_AFTER, seconds.into()),
                None => reply,
            })
        }
        Err(error) => Err(error),
    }
}

fn form<'a>(
    http: &HttpState,
    token: &'a str,
    account: &'a str,
    fault: Option<ResetFormError<'a>>,
) -> ResetPageView<'a> {
    let least = http.services.config.accounts.password_min;
    ResetPageView::Form(ResetForm {
        token,
        account,
        least: usize::try_from(least).unwrap_or_default(),
        fault,
    })
}

async fn set_password(
    services: &Services,
    cx: &Context,
    token: TokenHash,
    password: &str,
) -> Result<(), ApiError> {
    let password =
        Password::new(password).map_err(|why| ApiError::new(ErrorCode::PasswordTooLong, why.0))?;
    let (from, now) = (cx.peer, cx.now);
    let kind = AttemptKind::ResetAddress;
    services
        .accounts
        .check_address_rate(kind, None, from, now)?;
    let pool = pool(services, cx, None);
    pool.guess(
        services
            .accounts
            .complete_reset(None, token, &password, from, now, &pool),
    )
    .await
}

/// Whether the user can send the same form again, with another password or later.
const fn is_correctable(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::PasswordTooShort
            | ErrorCode::PasswordTooLong
            | ErrorCode::PasswordTooCommon
            | ErrorCode::TooManyAttempts
            | ErrorCode::Overloaded
    )
}

fn accept_language(cx: &Context) -> Option<&str> {
    cx.accept_language
        .as_ref()
        .and_then(|value| value.to_str().ok())
}

fn page(http: &HttpState, cx: &Context, status: StatusCode, view: &ResetPageView<'_>) -> Reply {
    let language = http.messages.language(accept_language(cx), None);
    http.pages.reset(language, status, view)
}
