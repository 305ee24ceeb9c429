//! Handlers of a user's login and playback sessions.
//!
//! Both kinds are in one list, distinguished by `kind`. A viewer who reached the stream limit can end the blocking
//! playback session, whose id is in that error; a user who lost a phone can end its login session.

use crate::partner::login::answer::LoginLine;
use crate::partner::playback::answer::{PlaybackSessionBody, SessionBody};
use crate::partner::users::request::SessionRequest;
use playgate_domain::playback::EndReason;
use playgate_http::access::auth::UserAuth;
use playgate_http::errors::api_error::ApiError;
use playgate_http::offload::cold_for;
use playgate_http::request::context::Context;
use playgate_http::response::reply::Reply;
use playgate_services::Services;
use playgate_types::{LoginId, UserId};

pub(crate) async fn sessions(
    services: &Services,
    cx: &Context,
    auth: UserAuth,
) -> Result<Reply, ApiError> {
    let (accounts, now) = (services.accounts.clone(), cx.now);
    let logins = cold_for(services, cx, Some(auth.partner()), move || {
        accounts.logins(&auth.user(), now)
    })
    .await?;
    let logins = logins
        .iter()
        .map(|login| SessionBody::Login(LoginLine::new(login, Some(auth.login()))));
    let playing = services.playback.sessions_of(&auth.user(), cx.server_now);
    let playing = playing
        .into_iter()
        .map(|view| SessionBody::Playback(Box::new(PlaybackSessionBody::for_user(view))));
    Reply::json(&logins.chain(playing).collect::<Vec<_>>())
}

pub(crate) async fn session(
    services: &Services,
    cx: &Context,
    auth: UserAuth,
    request: SessionRequest,
) -> Result<Reply, ApiError> {
    // Searched among the sessions of this user only: an id of another user is unknown here.
    let mut playing = services
        .playback
        .sessions_of(&auth.user(), cx.server_now)
        .into_iter();
    if let Some(view) = playing.find(|view| view.id == request.playback) {
        return Reply::json(&SessionBody::Playback(Box::new(
            PlaybackSessionBody::for_user(view),
        )));
    }
    let (accounts, now) = (services.accounts.clone(), cx.now);
    let login = cold_for(services, cx, Some(auth.partner()), move || {
        accounts.login(&auth.user(), request.login, now)
    })
    .await?;
    let line = LoginLine::new(&login, Some(auth.login()));
    Reply::json(&SessionBody::Login(line))
}

pub(crate) async fn end_sessions(
    services: &Services,
    cx: &Context,
    auth: UserAuth,
) -> Result<Reply, ApiError> {
    // Playback first: if this fails, the logins are still there and the request can be repeated.
    services
        .playback
        .end_all(&auth.user(), EndReason::SignedOut, cx.server_now)
        .await?;
    services.accounts.end_logins(auth.user()).await?;
    Ok(Reply::no_content())
}

pub(crate) async fn end_session(
    services: &Services,
    cx: &Context,
    auth: UserAuth,
    request: SessionRequest,
) -> Result<Reply, ApiError> {
    let mut playing = services
        .playback
        .sessions_of(&auth.user(), cx.server_now)
        .into_iter();
    if playing.any(|view| view.id == request.playback) {
        let session = Some(&request.playback);
        services
            .playback
            .stop(&auth.user(), session, EndReason::Revoked, cx.server_now)?
            .await?;
        return Ok(Reply::no_content());
    }
    // Playback first: if this fails, the login is still there and the request can be repeated.
    end_playback_of(services, cx, &auth.user(), |login| login == request.login).await?;
    services
        .accounts
        .end_login(auth.user(), request.login)
        .await?;
    // And what was started meanwhile.
    end_playback_of(services, cx, &auth.user(), |login| login == request.login).await?;
    Ok(Reply::no_content())
}

/// Ends the playback of a user's logins that `ends` selects.
pub(super) async fn end_playback_of(
    services: &Services,
    cx: &Context,
    user: &UserId,
    ends: impl Fn(LoginId) -> bool,
) -> Result<(), ApiError> {
    if let Some(ended) = services.playback.end_of_logins(user, ends, cx.server_now) {
        ended.await?;
    }
    Ok(())
}
