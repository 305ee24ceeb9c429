//! Handlers of sign-up, login, logout and password reset.

pub(crate) mod answer;
pub(crate) mod request;

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::partner::login::answer::LoginReply;
use crate::partner::login::request::{LoginRequest, ResetRequest, SendResetRequest, SignUpRequest};
use crate::partner::sessions::end_playback_of;
use playgate_domain::accounts::{AttemptKind, LoginAttempt, LoginOrigin, NewUser};
use playgate_domain::playback::EndReason;
use playgate_http::access::auth::{PartnerAuth, UserAuth};
use playgate_http::errors::api_error::{ApiError, ErrorCode};
use playgate_http::offload::pool;
use playgate_http::request::context::Context;
use playgate_http::response::reply::Reply;
use playgate_services::Services;

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
    Reply::json(&LoginReply::new(&opened, true))
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
    Reply::json(&LoginReply::new(&opened, false))
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
