//! Handlers of the page that a reset mail leads to.
//!
//! Decision: the page needs no partner token. One that stood in a page would be anybody's, and the
//! reset token alone, 256 bits, used once, says whose password it is. It has the limits of the
//! partners' route.

use http::StatusCode;
use http::header::RETRY_AFTER;

use crate::app::App;
use crate::http::context::Context;
use crate::http::endpoint::reset_page::{LinkToken, ResetFormRequest, ResetPageRequest};
use crate::http::error::{ApiError, ErrorCode};
use crate::http::offload::{cold, pool};
use crate::http::reply::Reply;
use crate::http::reset_page_view::{Fault, View};
use crate::types::{Password, TokenHash};

/// GET the page: the form, for a token that can still be used. Whoever opens an old mail is told so
/// before they have thought of a password.
///
/// # Errors
/// `RESET_TOKEN_INVALID`.
pub async fn show(app: &App, cx: &Context, request: ResetPageRequest) -> Result<Reply, ApiError> {
    let LinkToken { text, hash } = request.token;
    let (accounts, now) = (app.accounts.clone(), cx.now);
    cold(app, move || accounts.check_redeem_rate(&hash, now)).await?;
    Ok(page(app, cx, StatusCode::OK, &View::Form(&text, None)))
}

/// POST the form.
///
/// # Errors
/// `RESET_TOKEN_INVALID`, and failures of ours: those that another try with the form does not mend.
pub async fn complete(
    app: &App,
    cx: &Context,
    request: ResetFormRequest,
) -> Result<Reply, ApiError> {
    let ResetFormRequest {
        token,
        password,
        again,
    } = request;
    if password != again {
        let view = View::Form(&token.text, Some(Fault::Mismatch));
        return Ok(page(app, cx, StatusCode::BAD_REQUEST, &view));
    }
    match set(app, cx, token.hash, &password).await {
        Ok(()) => Ok(page(app, cx, StatusCode::OK, &View::Done)),
        Err(error) if is_correctable(error.code()) => {
            let language = accepted(cx);
            let why = app.front.messages.pick(error.code(), language, None);
            let view = View::Form(&token.text, Some(Fault::Told(why)));
            let reply = page(app, cx, error.code().status(), &view);
            Ok(match error.retry_after() {
                Some(seconds) => reply.with_header(RETRY_AFTER, seconds.into()),
                None => reply,
            })
        }
        Err(error) => Err(error),
    }
}

async fn set(app: &App, cx: &Context, token: TokenHash, password: &str) -> Result<(), ApiError> {
    let password =
        Password::new(password).map_err(|why| ApiError::new(ErrorCode::PasswordTooLong, why.0))?;
    let (from, now) = (cx.peer, cx.now);
    app.accounts.check_reset_rate(from, now)?;
    let pool = pool(app, cx, None);
    pool.guess(
        app.accounts
            .complete_reset(None, token, &password, from, now, &pool),
    )
    .await
}

/// Whether the same form can be sent again, with another password or later.
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

fn accepted(cx: &Context) -> Option<&str> {
    cx.accept_language
        .as_ref()
        .and_then(|value| value.to_str().ok())
}

fn page(app: &App, cx: &Context, status: StatusCode, view: &View<'_>) -> Reply {
    let language = app.front.messages.language(accepted(cx), None);
    app.front.pages.reset(language, status, view)
}
