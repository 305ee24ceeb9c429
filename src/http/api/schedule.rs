//! Handlers of the schedule for partners. All of them answer from memory.

use std::sync::Arc;

use crate::app::App;
use crate::domain::schedule::{Answer, QueryError};
use crate::http::access::auth::PartnerAuth;
use crate::http::errors::api_error::ApiError;
use crate::http::request::context::Context;
use crate::http::response::cache::{CachedResponse, CompressibleBody};
use crate::http::response::reply::{Kept, Prepared, Reply, media};
use crate::http::routing::endpoint::schedule::{
    BroadcastRequest, BroadcastsRequest, DayRequest, LiveRequest, LivestreamDayRequest,
    LivestreamNowRequest,
};
use crate::types::UnixSeconds;

/// `GET /api/schedule/v1/broadcasts/live`: returns the live view (current,
/// previous and next broadcast) of livestreams.
///
/// # Errors
/// `LIVESTREAM_NOT_FOUND` if none of the livestreams exists.
pub(crate) fn live(
    app: &App,
    cx: &Context,
    _auth: PartnerAuth,
    request: LiveRequest,
) -> Result<Reply, ApiError> {
    let snapshot = app.schedule.snapshot();
    let livestreams = request.livestreams.as_slice();
    respond(app, cx, snapshot.live(livestreams, request.offset, cx.now))
}

/// `GET /api/schedule/v1/livestreams/{livestreamId}/live` (deprecated): returns the live
/// view of one livestream.
///
/// # Errors
/// `LIVESTREAM_NOT_FOUND`, `NO_CURRENT_BROADCAST`.
pub(crate) fn live_one(
    app: &App,
    cx: &Context,
    _auth: PartnerAuth,
    request: LivestreamNowRequest,
) -> Result<Reply, ApiError> {
    let snapshot = app.schedule.snapshot();
    let answer = snapshot.live_one(&request.livestream, request.offset, cx.now);
    respond(app, cx, answer)
}

/// `GET /api/schedule/v1/broadcasts/day/{date}`: returns the broadcasts of livestreams on a TV day.
///
/// # Errors
/// `LIVESTREAM_NOT_FOUND` if none of the livestreams exists.
pub(crate) fn day(
    app: &App,
    cx: &Context,
    _auth: PartnerAuth,
    request: DayRequest,
) -> Result<Reply, ApiError> {
    let snapshot = app.schedule.snapshot();
    let livestreams = request.livestreams.as_slice();
    let answer = snapshot.day(livestreams, request.day, app.schedule.view());
    respond(app, cx, answer)
}

/// `GET /api/schedule/v1/livestreams/{livestreamId}/day/{date}` (deprecated): returns the
/// broadcasts of one livestream on a TV day.
///
/// # Errors
/// `LIVESTREAM_NOT_FOUND`.
pub(crate) fn day_one(
    app: &App,
    cx: &Context,
    _auth: PartnerAuth,
    request: LivestreamDayRequest,
) -> Result<Reply, ApiError> {
    let snapshot = app.schedule.snapshot();
    let answer = snapshot.day_one(&request.livestream, request.day, app.schedule.view());
    respond(app, cx, answer)
}

/// `GET /api/schedule/v1/broadcasts/{broadcastId}`: returns one broadcast.
///
/// # Errors
/// `BROADCAST_NOT_FOUND`.
pub(crate) fn broadcast(
    app: &App,
    cx: &Context,
    _auth: PartnerAuth,
    request: BroadcastRequest,
) -> Result<Reply, ApiError> {
    respond(app, cx, app.schedule.snapshot().by_id(&request.broadcast))
}

/// `GET /api/schedule/v1/broadcasts`: returns broadcasts by id. Unknown ids are left out.
pub(crate) fn broadcasts(
    app: &App,
    cx: &Context,
    _auth: PartnerAuth,
    request: BroadcastsRequest,
) -> Result<Reply, ApiError> {
    let snapshot = app.schedule.snapshot();
    let answer = snapshot.by_ids(request.broadcasts.as_slice(), app.schedule.view());
    respond(app, cx, Ok(answer))
}

fn respond(app: &App, cx: &Context, answer: Result<Answer, QueryError>) -> Result<Reply, ApiError> {
    let answer = answer?;
    let body = answer.body.joined();
    Ok(prepared(
        app,
        cx,
        Arc::new(body.into()),
        answer.tag,
        answer.valid_until,
    ))
}

/// Builds the reply for a cached response.
#[must_use]
pub(crate) fn cached_reply(app: &App, cx: &Context, response: CachedResponse) -> Reply {
    let CachedResponse { body, tag, until } = response;
    prepared(app, cx, body, tag, until)
}

fn prepared(
    app: &App,
    cx: &Context,
    body: Arc<CompressibleBody>,
    tag: u64,
    until: Option<UnixSeconds>,
) -> Reply {
    Reply::prepared(Prepared {
        media: media::JSON,
        body,
        kept: Kept {
            tag,
            max_age: Kept::age(cx.now, until, app.config.schedule.max_age),
        },
        until,
    })
}
