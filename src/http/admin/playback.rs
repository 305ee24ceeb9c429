//! Handlers of running playback.

use crate::app::App;
use crate::http::api::unwritten;
use crate::http::auth::OperatorAuth;
use crate::http::context::Context;
use crate::http::endpoint::admin::system::EndPlaybackSessionRequest;
use crate::http::error::ApiError;
use crate::http::reply::Reply;

/// GET the running sessions.
///
/// # Errors
/// As the decisions list them.
pub async fn sessions(_app: &App, _cx: &Context, _auth: OperatorAuth) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// DELETE a session.
///
/// # Errors
/// As the decisions list them.
pub async fn end(
    _app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    _request: EndPlaybackSessionRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}
