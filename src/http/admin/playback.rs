//! Handlers of running playback.

use crate::app::App;
use crate::http::auth::OperatorAuth;
use crate::http::context::Context;
use crate::http::endpoint::admin::system::EndPlaybackSessionRequest;
use crate::http::error::ApiError;
use crate::http::reply::Reply;
use crate::http::wire::playback::PlaybackSessionBody;

/// Sessions in one answer: what a console shows, not what a machine can hold.
const SESSIONS_MAX: usize = 1_000;

/// GET the running sessions, oldest first.
///
/// # Errors
/// None of its own.
pub async fn sessions(app: &App, cx: &Context, _auth: OperatorAuth) -> Result<Reply, ApiError> {
    let (playback, now) = (app.playback.clone(), cx.now);
    // A walk over everything: not on the runtime's threads.
    let views = app
        .cold
        .run(move |()| playback.all_sessions(SESSIONS_MAX, now))?
        .await?;
    let bodies: Vec<_> = views
        .into_iter()
        .map(|view| {
            let user = app.accounts.user(&view.user);
            PlaybackSessionBody::anybodys(view, user.map(|user| user.email.as_str().to_owned()))
        })
        .collect();
    Reply::json(&bodies)
}

/// DELETE a session.
///
/// # Errors
/// `SESSION_NOT_FOUND`, `SESSION_ENDED`.
pub async fn end(
    app: &App,
    cx: &Context,
    _auth: OperatorAuth,
    request: EndPlaybackSessionRequest,
) -> Result<Reply, ApiError> {
    app.playback.revoke(&request.session, cx.now)?.await?;
    Ok(Reply::no_content())
}
