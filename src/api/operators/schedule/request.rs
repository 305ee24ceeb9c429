//! Requests about the schedule. They are like those of partners, but a request without `livestreams` means all of them.

use playgate_http::errors::api_error::{ApiError, CombineResults};
use playgate_http::request::payload::Payload;
use playgate_http::request::query::IdList;
use playgate_http::routing::endpoint::{Input, ParseRequest};
use playgate_types::{LiveOffset, LivestreamId, TvDay};

type LivestreamIds = Option<IdList<LivestreamId>>;

fn named(input: &Input<'_>) -> Result<LivestreamIds, ApiError> {
    input.query.ids("livestreams", LivestreamId::parse)
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
