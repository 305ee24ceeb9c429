//! Handlers of a user's sessions, of logins and of playback.
//!
//! Decision: both kinds stand in one list, each with its `kind`: a viewer who is told that the
//! stream limit is reached ends the session in the way by the id in that answer, and one who lost a
//! phone ends its login.

use crate::app::App;
use crate::domain::accounts::{AccountsError, LoginInfo};
use crate::domain::playback::EndReason;
use crate::http::api::playback::store_failed;
use crate::http::auth::UserAuth;
use crate::http::context::Context;
use crate::http::endpoint::users::SessionRequest;
use crate::http::error::{ApiError, ErrorCode};
use crate::http::reply::Reply;
use crate::http::wire::playback::{PlaybackSessionBody, SessionBody};

/// GET the sessions: logins, then playback, oldest first.
///
/// # Errors
/// Those of the store.
pub async fn sessions(app: &App, cx: &Context, auth: UserAuth) -> Result<Reply, ApiError> {
    let logins = logins(app, cx, auth).await?;
    let logins = logins
        .iter()
        .map(|login| SessionBody::of_login(login, login.id == auth.login()));
    let playing = app.playback.sessions_of(&auth.user(), cx.now);
    let playing = playing
        .into_iter()
        .map(|view| SessionBody::Playback(PlaybackSessionBody::own(view)));
    Reply::json(&logins.chain(playing).collect::<Vec<_>>())
}

/// GET a session.
///
/// # Errors
/// `SESSION_NOT_FOUND`.
pub async fn session(
    app: &App,
    cx: &Context,
    auth: UserAuth,
    request: SessionRequest,
) -> Result<Reply, ApiError> {
    let mut playing = app.playback.sessions_of(&auth.user(), cx.now).into_iter();
    if let Some(view) = playing.find(|view| view.id == request.playback) {
        return Reply::json(&SessionBody::Playback(PlaybackSessionBody::own(view)));
    }
    let logins = logins(app, cx, auth).await?;
    let found = logins.iter().find(|login| login.id == request.login);
    let login = found.ok_or_else(unknown)?;
    Reply::json(&SessionBody::of_login(login, login.id == auth.login()))
}

/// DELETE all sessions: nobody is logged in, and nothing plays.
///
/// # Errors
/// Those of the store.
pub async fn end_sessions(app: &App, cx: &Context, auth: UserAuth) -> Result<Reply, ApiError> {
    app.playback.end_all(&auth.user(), cx.now).await?;
    let accounts = app.accounts.clone();
    let ended = app.cold.run(move |()| accounts.end_logins(auth.user()))?;
    ended.await?.map_err(refused)?;
    Ok(Reply::no_content())
}

/// DELETE a session.
///
/// # Errors
/// `SESSION_NOT_FOUND`.
pub async fn end_session(
    app: &App,
    cx: &Context,
    auth: UserAuth,
    request: SessionRequest,
) -> Result<Reply, ApiError> {
    let mut playing = app.playback.sessions_of(&auth.user(), cx.now).into_iter();
    if playing.any(|view| view.id == request.playback) {
        let session = Some(&request.playback);
        app.playback
            .stop(&auth.user(), session, EndReason::Revoked, cx.now)?
            .await?;
        return Ok(Reply::no_content());
    }
    let accounts = app.accounts.clone();
    let ended = app
        .cold
        .run(move |()| accounts.end_login(auth.user(), request.login))?;
    ended.await?.map_err(refused)?;
    Ok(Reply::no_content())
}

async fn logins(app: &App, cx: &Context, auth: UserAuth) -> Result<Vec<LoginInfo>, ApiError> {
    let (accounts, now) = (app.accounts.clone(), cx.now);
    let logins = app
        .cold
        .run(move |()| accounts.logins(&auth.user(), now))?;
    logins.await?.map_err(store_failed)
}

fn unknown() -> ApiError {
    ApiError::new(ErrorCode::SessionNotFound, "there is no such session")
}

fn refused(error: AccountsError) -> ApiError {
    match error {
        AccountsError::LoginNotFound => unknown(),
        AccountsError::Store(error) => store_failed(error),
        other => ApiError::internal(other),
    }
}
