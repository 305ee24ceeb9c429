//! Handlers of the schedule for partners. All of them answer from memory.

pub(crate) mod request;

use std::sync::Arc;

use crate::partner::schedule::request::{
    BroadcastRequest, BroadcastsRequest, DayRequest, LiveRequest, LivestreamDayRequest,
    LivestreamNowRequest,
};
use playgate_domain::schedule::{QueryError, ScheduleResponse};
use playgate_http::access::auth::PartnerAuth;
use playgate_http::errors::api_error::ApiError;
use playgate_http::request::context::Context;
use playgate_http::response::prepared::CachedResponse;
use playgate_http::response::reply::Reply;
use playgate_services::Services;

pub(crate) fn live(
    services: &Services,
    cx: &Context,
    _auth: PartnerAuth,
    request: LiveRequest,
) -> Result<Reply, ApiError> {
    let snapshot = services.schedule.snapshot();
    let livestreams = request.livestreams.as_slice();
    respond(
        services,
        cx,
        snapshot.live(livestreams, request.offset, cx.now),
    )
}

pub(crate) fn live_one(
    services: &Services,
    cx: &Context,
    _auth: PartnerAuth,
    request: LivestreamNowRequest,
) -> Result<Reply, ApiError> {
    let snapshot = services.schedule.snapshot();
    let answer = snapshot.live_one(&request.livestream, request.offset, cx.now);
    respond(services, cx, answer)
}

pub(crate) fn day(
    services: &Services,
    cx: &Context,
    _auth: PartnerAuth,
    request: DayRequest,
) -> Result<Reply, ApiError> {
    let snapshot = services.schedule.snapshot();
    let livestreams = request.livestreams.as_slice();
    let answer = snapshot.day(livestreams, request.day, services.schedule.view());
    respond(services, cx, answer)
}

pub(crate) fn day_one(
    services: &Services,
    cx: &Context,
    _auth: PartnerAuth,
    request: LivestreamDayRequest,
) -> Result<Reply, ApiError> {
    let snapshot = services.schedule.snapshot();
    let answer = snapshot.day_one(&request.livestream, request.day, services.schedule.view());
    respond(services, cx, answer)
}

pub(crate) fn broadcast(
    services: &Services,
    cx: &Context,
    _auth: PartnerAuth,
    request: BroadcastRequest,
) -> Result<Reply, ApiError> {
    respond(
        services,
        cx,
        services.schedule.snapshot().by_id(&request.broadcast),
    )
}

pub(crate) fn broadcasts(
    services: &Services,
    cx: &Context,
    _auth: PartnerAuth,
    request: BroadcastsRequest,
) -> Result<Reply, ApiError> {
    let snapshot = services.schedule.snapshot();
    let answer = snapshot.by_ids(request.broadcasts.as_slice(), services.schedule.view());
    respond(services, cx, Ok(answer))
}

fn respond(
    services: &Services,
    cx: &Context,
    answer: Result<ScheduleResponse, QueryError>,
) -> Result<Reply, ApiError> {
    let answer = answer?;
    let response = CachedResponse {
        body: Arc::new(answer.body.joined().into()),
        tag: answer.tag,
        until: answer.valid_until,
    };
    let max_age = services.config.schedule.max_age;
    Ok(Reply::cached(response, cx.now, max_age))
}
