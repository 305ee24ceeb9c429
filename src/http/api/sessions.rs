//! Handlers of a user's sessions, of logins and of playback.
//!
//! Decision: both kinds stand in one list, each with its `kind`: a viewer who is told that the
//! stream limit is reached ends the session in the way by the id in that answer, and one who lost a
//! phone ends its login.

use crate::app::App;
use crate::domain::playback::EndReason;
use crate::http::auth::UserAuth;
use crate::http::context::Context;
use crate::http::endpoint::users::SessionRequest;
use crate::http::error::ApiError;
use crate::http::offload::cold;
use crate::http::reply::Reply;
use crate::http::wire::playback::{PlaybackSessionBody, SessionBody};
use crate::http::wire::users::LoginLine;

/// GET the sessions: logins, then playback, oldest first.
///
/// # Errors
/// Those of the store.
pub async fn sessions(app: &App, cx: &Context, auth: UserAuth) -> Result<Reply, ApiError> {
    let (accounts, now) = (app.accounts.clone(), cx.now);
    let logins = cold(app, move || accounts.logins(&auth.user(), now)).await?;
    let logins = logins
        .iter()
        .map(|login| SessionBody::Login(LoginLine::new(login, Some(auth.login()))));
    let playing = app.playback.sessions_of(&auth.user(), cx.now);
    let playing = playing
        .into_iter()
        .map(|view| SessionBody::Playback(Box::new(PlaybackSessionBody::own(view))));
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
        return Reply::json(&SessionBody::Playback(Box::new(PlaybackSessionBody::own(
            view,
        ))));
    }
    let (accounts, now) = (app.accounts.clone(), cx.now);
    let login = cold(app, move || {
        accounts.login(&auth.user(), request.login, now)
    })
    .await?;
    let line = LoginLine::new(&login, Some(auth.login()));
    Reply::json(&SessionBody::Login(line))
}

/// DELETE all sessions: nobody is logged in, and nothing plays.
///
/// # Errors
/// Those of the store.
pub async fn end_sessions(app: &App, cx: &Context, auth: UserAuth) -> Result<Reply, ApiError> {
    app.playback
        .end_all(&auth.user(), EndReason::SignedOut, cx.now)
        .await?;
    app.accounts.end_logins(auth.user()).await?;
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
    app.accounts.end_login(auth.user(), request.login).await?;
    Ok(Reply::no_content())
}
