//! Handlers of entitlement, preflight, heartbeat and the end of playback.

use crate::app::App;
use crate::http::api::unwritten;
use crate::http::auth::UserAuth;
use crate::http::context::Context;
use crate::http::endpoint::playback::{
    EndPlaybackRequest, EntitlementRequest, HeartbeatRequest, PreflightRequest,
};
use crate::http::error::ApiError;
use crate::http::reply::Reply;

/// POST entitlement.
///
/// # Errors
/// As the decisions list them.
pub async fn entitlement(
    _app: &App,
    _cx: &Context,
    _auth: UserAuth,
    _request: EntitlementRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// POST preflight.
///
/// # Errors
/// As the decisions list them.
pub async fn preflight(
    _app: &App,
    _cx: &Context,
    _auth: UserAuth,
    _request: PreflightRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// POST heartbeat.
///
/// # Errors
/// As the decisions list them.
pub fn heartbeat(
    _app: &App,
    _cx: &Context,
    _auth: UserAuth,
    _request: HeartbeatRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// DELETE heartbeat.
///
/// # Errors
/// As the decisions list them.
pub async fn end_playback(
    _app: &App,
    _cx: &Context,
    _auth: UserAuth,
    _request: EndPlaybackRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}
