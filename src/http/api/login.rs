//! Handlers of sign-up, login, log-out and password reset.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::app::App;
use crate::domain::accounts::NewUser;
use crate::domain::playback::EndReason;
use crate::http::auth::{PartnerAuth, UserAuth};
use crate::http::context::Context;
use crate::http::endpoint::login::{LoginRequest, ResetRequest, SendResetRequest, SignUpRequest};
use crate::http::error::{ApiError, ErrorCode};
use crate::http::offload::pool;
use crate::http::reply::Reply;
use crate::http::wire::login::LoginReply;

/// How long the answer to a request for a reset mail takes at the least. A user who exists costs a
/// few writes more: the difference must not show whose address has an account.
const RESET_FLOOR: Duration = Duration::from_millis(25);
/// By how many microseconds more it is drawn out, by chance. Timers tick once a millisecond, and
/// waiting for one begins a little later after more work: too little to see, enough to be summed up.
const RESET_SPREAD: u64 = 10_000;

/// PUT auth/email.
///
/// # Errors
/// As the decisions list them.
pub async fn sign_up(
    app: &App,
    cx: &Context,
    auth: PartnerAuth,
    request: SignUpRequest,
) -> Result<Reply, ApiError> {
    let (partner, from, now) = (auth.partner(), cx.peer, cx.now);
    app.accounts.may_sign_up(from, now)?;
    let new = NewUser {
        email: request.identity,
        name: request.name,
        country: request.country,
        locale: request.locale,
        birth_date: request.birth_date,
    };
    let password = request.access_key;
    let pool = pool(app, cx, Some(partner));
    let opened = pool
        .guess(
            app.accounts
                .sign_up(partner, new, &password, from, now, &pool),
        )
        .await
        .map_err(|error| {
            error
                .for_member("identity", &[ErrorCode::EmailInUse])
                .for_member("accessKey", ErrorCode::BAD_PASSWORD)
        })?;
    Reply::json(&LoginReply::new(&opened, true))
}

/// POST auth/email.
///
/// # Errors
/// As the decisions list them.
pub async fn login(
    app: &App,
    cx: &Context,
    auth: PartnerAuth,
    request: LoginRequest,
) -> Result<Reply, ApiError> {
    let (partner, from, now) = (auth.partner(), cx.peer, cx.now);
    let LoginRequest {
        identity: email,
        access_key: password,
    } = request;
    app.accounts.may_log_in(partner, &email, from, now)?;
    let pool = pool(app, cx, Some(partner));
    let opened = pool
        .guess(
            app.accounts
                .log_in(partner, &email, &password, from, now, &pool),
        )
        .await?;
    Reply::json(&LoginReply::new(&opened, false))
}

/// POST auth/logout: what plays ends first, so that a failure in between leaves a login that can be
/// ended by another try.
///
/// # Errors
/// Those of the store.
pub async fn logout(app: &App, cx: &Context, auth: UserAuth) -> Result<Reply, ApiError> {
    app.playback
        .end_all(&auth.user(), EndReason::SignedOut, cx.now)
        .await?;
    app.accounts.end_login(auth.user(), auth.login()).await?;
    Ok(Reply::empty_object())
}

/// POST send-reset-password and send-reset-email.
///
/// # Errors
/// As the decisions list them.
pub async fn send_reset(
    app: &App,
    cx: &Context,
    auth: PartnerAuth,
    request: SendResetRequest,
) -> Result<Reply, ApiError> {
    // Of a hash with random keys, which nobody can foresee.
    let chance = RandomState::new().hash_one(cx.now) % RESET_SPREAD;
    let answered = Instant::now() + RESET_FLOOR + Duration::from_micros(chance);
    let (partner, from, now) = (auth.partner(), cx.peer, cx.now);
    let SendResetRequest { email, locale } = request;
    app.accounts
        .send_reset(partner, &email, locale, from, now)
        .await?;
    sleep_until(answered).await;
    Ok(Reply::empty_object())
}

/// POST password/reset.
///
/// # Errors
/// As the decisions list them.
pub async fn reset(
    app: &App,
    cx: &Context,
    auth: PartnerAuth,
    request: ResetRequest,
) -> Result<Reply, ApiError> {
    let (partner, from, now) = (auth.partner(), cx.peer, cx.now);
    let ResetRequest { password, token } = request;
    app.accounts.check_reset_rate(from, now)?;
    let pool = pool(app, cx, Some(partner));
    pool.guess(
        app.accounts
            .complete_reset(Some(partner), token, &password, from, now, &pool),
    )
    .await
    .map_err(|error| error.for_member("password", ErrorCode::BAD_PASSWORD))?;
    Ok(Reply::empty_object())
}
