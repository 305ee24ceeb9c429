//! Handlers of the schedule for operators. The responses are those that partners get, for all
//! livestreams unless some are named. They are never cached: an operator who has just changed a
//! right must see the change.

pub(crate) mod request;

use crate::operators::schedule::request::{ScheduleDayRequest, ScheduleLiveRequest};
use playgate_domain::schedule::{QueryError, ScheduleResponse};
use playgate_http::access::auth::OperatorAuth;
use playgate_http::errors::api_error::ApiError;
use playgate_http::request::context::Context;
use playgate_http::request::query::IdList;
use playgate_http::response::reply::{Reply, media};
use playgate_services::Services;
use playgate_types::LivestreamId;

pub(crate) fn live(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: ScheduleLiveRequest,
) -> Result<Reply, ApiError> {
    let snapshot = services.schedule.snapshot();
    respond(services, request.livestreams, |livestreams| {
        snapshot.live(livestreams, request.offset, cx.now)
    })
}

pub(crate) fn day(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: ScheduleDayRequest,
) -> Result<Reply, ApiError> {
    let snapshot = services.schedule.snapshot();
    respond(services, request.livestreams, |livestreams| {
        snapshot.day(livestreams, request.day, services.schedule.view())
    })
}

fn respond(
    services: &Services,
    named: Option<IdList<LivestreamId>>,
    ask: impl FnOnce(&[LivestreamId]) -> Result<ScheduleResponse, QueryError>,
) -> Result<Reply, ApiError> {
    let answer = match named {
        Some(named) => ask(named.as_slice())?,
        None => {
            let catalog = services.catalog.snapshot();
            let all: Vec<_> = catalog.livestreams().map(|one| one.id.clone()).collect();
            // An empty catalogue is no error, because no livestream was named.
            if all.is_empty() {
                return Ok(Reply::empty_object());
            }
            ask(&all)?
        }
    };
    Ok(Reply::bytes(media::JSON, answer.body.joined()))
}
