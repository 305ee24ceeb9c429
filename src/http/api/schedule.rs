//! Handlers of the schedule.

use crate::app::App;
use crate::http::api::unwritten;
use crate::http::auth::PartnerAuth;
use crate::http::context::Context;
use crate::http::endpoint::schedule::{
    BroadcastRequest, BroadcastsRequest, DayOneRequest, DayRequest, LiveOneRequest, LiveRequest,
};
use crate::http::error::ApiError;
use crate::http::reply::Reply;

/// S6.
///
/// # Errors
/// As the decisions list them.
pub fn live(
    _app: &App,
    _cx: &Context,
    _auth: PartnerAuth,
    _request: LiveRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// S1.
///
/// # Errors
/// As the decisions list them.
pub fn live_one(
    _app: &App,
    _cx: &Context,
    _auth: PartnerAuth,
    _request: LiveOneRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// S5.
///
/// # Errors
/// As the decisions list them.
pub async fn day(
    _app: &App,
    _cx: &Context,
    _auth: PartnerAuth,
    _request: DayRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// S2.
///
/// # Errors
/// As the decisions list them.
pub async fn day_one(
    _app: &App,
    _cx: &Context,
    _auth: PartnerAuth,
    _request: DayOneRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// S3.
///
/// # Errors
/// As the decisions list them.
pub async fn broadcast(
    _app: &App,
    _cx: &Context,
    _auth: PartnerAuth,
    _request: BroadcastRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// S4.
///
/// # Errors
/// As the decisions list them.
pub async fn broadcasts(
    _app: &App,
    _cx: &Context,
    _auth: PartnerAuth,
    _request: BroadcastsRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// The guide as XMLTV.
///
/// # Errors
/// As the decisions list them.
pub async fn xmltv(_app: &App, _cx: &Context, _auth: PartnerAuth) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// The livestreams as M3U.
///
/// # Errors
/// As the decisions list them.
pub async fn m3u(_app: &App, _cx: &Context, _auth: PartnerAuth) -> Result<Reply, ApiError> {
    Err(unwritten())
}
