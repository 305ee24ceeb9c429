//! The schedule for partners. All of them answer from memory.

use std::sync::Arc;

use playgate_domain::schedule::{QueryError, ScheduleResponse};
use playgate_http::response::prepared::CachedResponse;
use playgate_http::{
    ApiError, CombineResults, Context, IdList, Input, ParseRequest, PartnerAuth, Payload, Reply,
};
use playgate_services::Services;
use playgate_types::{BroadcastId, LiveOffset, LivestreamId, TvDay, percent_encoded};

crate::openapi::words::words! { => r##"
[operations.live]
summary = "Now, next and previous of several livestreams"
text = '''
Returns the live view of each livestream at the live point, or at `offset` before it. Unknown livestreams, and those with nothing on air at that point, are left out. If none of the livestreams is known, the response is 404. A response may be cached until one of its current broadcasts ends.'''
query.livestreams = "LivestreamIds: Livestreams."
query.offset = "LiveOffset?: Offset from the live point."
kept = true
returns."200" = "{LiveView}: Live views by livestream id."
errors = ["LIVESTREAM_NOT_FOUND"]

[operations.day]
summary = "Broadcasts of a TV day of several livestreams"
text = '''
Returns the broadcasts that start in a TV day, ordered by start. A TV day runs from 06:00 (by default) to 06:00 of the next day, local time in the livestream's time zone. Consecutive days have neither gaps nor overlaps. Unknown livestreams are left out; if none is known, the response is 404. A livestream without broadcasts on that day has `[]`.'''
query.livestreams = "LivestreamIds: Livestreams."
kept = true
returns."200" = "{[Broadcast]}: Broadcasts by livestream id."
errors = ["LIVESTREAM_NOT_FOUND"]

[operations.broadcasts]
summary = "Broadcasts by id"
text = "Unknown broadcasts are left out. Each broadcast has `streamStart`, `streamStop` and `streamId`."
query.broadcasts = "BroadcastIds: Broadcasts."
kept = true
returns."200" = { text = "Broadcasts by id.", type = "{CarriedBroadcast}", example = '''
{"bc-5xr3ykqhd2wvmp5u": {"id": "bc-5xr3ykqhd2wvmp5u", "title": "Evening news", "start": 1767268800, "stop": 1767270600, "liveAvailable": true, "extendedRights": {"pause": true, "rewind": true, "fastForward": false}, "streamStart": 1767268800, "streamStop": 1767270600, "streamId": "news"}}''' }

[operations.broadcast]
summary = "A broadcast"
text = "A broadcast that is or was in the guide, with its rights. It is found as long as its id is: past its end, until the guide's history is deleted."
kept = true
returns."200" = "Broadcast: The broadcast."
errors = ["BROADCAST_NOT_FOUND"]

[operations.day_one]
summary = "Broadcasts of a TV day of one livestream (deprecated)"
kept = true
returns."200" = "[Broadcast]: The broadcasts, ordered by start."
errors = ["LIVESTREAM_NOT_FOUND"]

[operations.live_one]
summary = "Now, next and previous of one livestream (deprecated)"
query.offset = "LiveOffset?: Offset from the live point."
kept = true
returns."200" = "LiveView: The live view."
errors = ["LIVESTREAM_NOT_FOUND", "NO_CURRENT_BROADCAST"]
"## }

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LiveRequest {
    pub livestreams: IdList<LivestreamId>,
    pub offset: LiveOffset,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LivestreamNowRequest {
    pub livestream: LivestreamId,
    pub offset: LiveOffset,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DayRequest {
    pub day: TvDay,
    pub livestreams: IdList<LivestreamId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LivestreamDayRequest {
    pub day: TvDay,
    pub livestream: LivestreamId,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BroadcastRequest {
    pub broadcast: BroadcastId,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BroadcastsRequest {
    pub broadcasts: IdList<BroadcastId>,
}

pub(crate) fn livestream(input: &Input<'_>) -> Result<LivestreamId, ApiError> {
    input.parsed("livestreamId", LivestreamId::parse)
}

fn livestreams(input: &Input<'_>) -> Result<IdList<LivestreamId>, ApiError> {
    input.query.required_ids("livestreams")
}

fn tv_day(input: &Input<'_>) -> Result<TvDay, ApiError> {
    input.parsed("date", TvDay::parse)
}

fn offset(input: &Input<'_>) -> Result<LiveOffset, ApiError> {
    let offset = input.query.parsed("offset", LiveOffset::parse)?;
    Ok(offset.unwrap_or(LiveOffset::LIVE))
}

// Ids contain no comma, so different lists have different cache keys.

impl ParseRequest for LiveRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let (livestreams, offset) = (livestreams(input), offset(input)).combine()?;
        Ok(Self {
            livestreams,
            offset,
        })
    }

    fn cache_key(&self) -> Option<String> {
        let offset = self.offset.seconds();
        Some(format!("live {offset} {}", self.livestreams))
    }
}

impl ParseRequest for LivestreamNowRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let (livestream, offset) = (livestream(input), offset(input)).combine()?;
        Ok(Self { livestream, offset })
    }

    fn successor(&self) -> Option<String> {
        let id = percent_encoded(self.livestream.as_str());
        let offset = match self.offset.seconds() {
            0 => String::new(),
            seconds => format!("&offset={seconds}"),
        };
        Some(format!(
            "/api/schedule/v1/broadcasts/live?livestreams={id}{offset}"
        ))
    }
}

impl ParseRequest for DayRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let (day, livestreams) = (tv_day(input), livestreams(input)).combine()?;
        Ok(Self { day, livestreams })
    }

    fn cache_key(&self) -> Option<String> {
        Some(format!("day {} {}", self.day, self.livestreams))
    }
}

impl ParseRequest for LivestreamDayRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let (livestream, day) = (livestream(input), tv_day(input)).combine()?;
        Ok(Self { day, livestream })
    }

    fn successor(&self) -> Option<String> {
        let (day, id) = (self.day, percent_encoded(self.livestream.as_str()));
        Some(format!(
            "/api/schedule/v1/broadcasts/day/{day}?livestreams={id}"
        ))
    }
}

impl ParseRequest for BroadcastRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            broadcast: input.parsed("broadcastId", BroadcastId::parse)?,
        })
    }
}

impl ParseRequest for BroadcastsRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            broadcasts: input.query.required_ids("broadcasts")?,
        })
    }

    fn cache_key(&self) -> Option<String> {
        Some(format!("broadcasts {}", self.broadcasts))
    }
}

pub(crate) fn live(
    services: &Services,
    cx: &Context,
    _auth: PartnerAuth,
    request: LiveRequest,
) -> Result<Reply, ApiError> {
    let snapshot = services.schedule.snapshot();
    let livestreams = request.livestreams.to_vec();
    let answer = snapshot.live(&livestreams, request.offset, cx.now);
    respond(services, cx, answer)
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
    let livestreams = request.livestreams.to_vec();
    let answer = snapshot.day(&livestreams, request.day, services.schedule.view());
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
    let answer = snapshot.by_ids(&request.broadcasts.to_vec(), services.schedule.view());
    respond(services, cx, Ok(answer))
}

fn respond(
    services: &Services,
    cx: &Context,
    answer: Result<ScheduleResponse, QueryError>,
) -> Result<Reply, ApiError> {
    let answer = answer?;
    let response = CachedResponse {
        body: Arc::new(answer.body.into()),
        tag: answer.tag,
        until: answer.valid_until,
    };
    let max_age = services.config.schedule.max_age;
    Ok(Reply::cached(response, cx.now, max_age))
}
