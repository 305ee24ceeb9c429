//! Handlers of the page that a reset mail links to.
//!
//! The page needs no partner token: a token in a public page would be public. The reset token (256
//! random bits, single use) identifies the user. The rate limits are those of the partners' route.

use http::StatusCode;
use http::header::RETRY_AFTER;

use crate::domain::accounts::AttemptKind;
use crate::http::access::auth::Anyone;
use crate::http::errors::api_error::{ApiError, ErrorCode};
use crate::http::offload::{cold_for, pool};
use crate::http::request::context::Context;
use crate::http::response::reply::Reply;
use crate::http::response::reset_page_view::{ResetFormError, ResetPageView};
use crate::http::routing::endpoint::reset_page::{LinkToken, ResetFormRequest, ResetPageRequest};
use crate::http::state::HttpState;
use crate::services::Services;
use crate::types::{Password, TokenHash};

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
    cold_for(&http.services, cx, None, move || {
        accounts.check_reset_token(&hash, now)
    })
    .await?;
    Ok(page(
        http,
        cx,
        StatusCode::OK,
        &ResetPageView::Form(&text, None),
    ))
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
    } = request;
    if password != again {
        let view = ResetPageView::Form(&token.text, Some(ResetFormError::Mismatch));
        return Ok(page(http, cx, StatusCode::BAD_REQUEST, &view));
    }
    match set_password(&http.services, cx, token.hash, &password).await {
        Ok(()) => Ok(page(http, cx, StatusCode::OK, &ResetPageView::Done)),
        Err(error) if is_correctable(error.code()) => {
            // In the browser's language, because the user is not logged in.
            let language = accept_language(cx);
            let why = http.messages.pick(error.code(), language, None);
            let view = ResetPageView::Form(&token.text, Some(ResetFormError::Message(why)));
            let reply = page(http, cx, error.code().status(), &view);
            Ok(match error.retry_after() {
                Some(seconds) => reply.with_header(RETRY_AFTER, seconds.into()),
                None => reply,
            })
        }
        Err(error) => Err(error),
    }
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
