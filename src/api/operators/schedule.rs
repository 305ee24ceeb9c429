//! The schedule for operators. The responses are those that partners get, for all
//! livestreams unless some are named. They are never cached: an operator who has just changed a
//! right must see the change.

use playgate_domain::schedule::{QueryError, ScheduleResponse};
use playgate_http::response::reply::media;
use playgate_http::{
    ApiError, CombineResults, Context, IdList, Input, OperatorAuth, ParseRequest, Payload, Reply,
};
use playgate_services::Services;
use playgate_types::{LiveOffset, LivestreamId, TvDay};

crate::openapi::words::words! { => r##"
[operations.admin_schedule_live]
summary = "Show what is on"
text = "Same content as the partner route `broadcasts/live`, never cached. A livestream with nothing on air is left out."
query.livestreams = "LivestreamIds?: Livestreams. Default: all."
query.offset = "LiveOffset?: Offset from the live point."
returns."200" = "{LiveView}: Live views by livestream id."
errors = ["LIVESTREAM_NOT_FOUND"]

[operations.admin_schedule_day]
summary = "List the broadcasts of a TV day"
text = "Same content as the partner route `broadcasts/day/{date}`, never cached."
query.livestreams = "LivestreamIds?: Livestreams. Default: all."
returns."200" = "{[Broadcast]}: Broadcasts by livestream id."
errors = ["LIVESTREAM_NOT_FOUND"]
"## }

type LivestreamIds = Option<IdList<LivestreamId>>;

fn named(input: &Input<'_>) -> Result<LivestreamIds, ApiError> {
    input.query.ids("livestreams")
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScheduleLiveRequest {
    pub livestreams: LivestreamIds,
    pub offset: LiveOffset,
}

impl ParseRequest for ScheduleLiveRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let offset = input.query.parsed("offset", LiveOffset::parse);
        let (livestreams, offset) = (named(input), offset).combine()?;
        Ok(Self {
            livestreams,
            offset: offset.unwrap_or(LiveOffset::LIVE),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScheduleDayRequest {
    pub livestreams: LivestreamIds,
    pub day: TvDay,
}

impl ParseRequest for ScheduleDayRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let day = input.parsed("date", TvDay::parse);
        let (livestreams, day) = (named(input), day).combine()?;
        Ok(Self { livestreams, day })
    }
}

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
        Some(named) => ask(&named.to_vec())?,
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
    Ok(Reply::bytes(media::JSON, answer.body))
}
