//! Requests about the schedule: what partners ask for, and all livestreams where none is named.

use super::super::Input;
use crate::http::combine::CombineResults;
use crate::http::error::ApiError;
use crate::http::query::IdList;
use crate::types::{LiveOffset, LivestreamId, TvDay};

/// The livestreams that are named; `None` for all.
type Named = Option<IdList<LivestreamId>>;

fn named(input: &Input<'_>) -> Result<Named, ApiError> {
    input.query.ids("livestreams", LivestreamId::parse)
}

/// GET what is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleLiveRequest {
    /// Of these livestreams.
    pub livestreams: Named,
    /// The distance back from the live point.
    pub offset: LiveOffset,
}

impl ScheduleLiveRequest {
    pub(super) fn parse(input: &Input<'_>) -> Result<Self, ApiError> {
        let offset = input.query.parsed("offset", LiveOffset::parse);
        let (livestreams, offset) = (named(input), offset).combine()?;
        Ok(Self {
            livestreams,
            offset: offset.unwrap_or(LiveOffset::LIVE),
        })
    }
}

/// GET the broadcasts of a tv day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleDayRequest {
    /// Of these livestreams.
    pub livestreams: Named,
    /// The tv day.
    pub day: TvDay,
}

impl ScheduleDayRequest {
    pub(super) fn parse(input: &Input<'_>) -> Result<Self, ApiError> {
        let day = input.parsed("date", TvDay::parse);
        let (livestreams, day) = (named(input), day).combine()?;
        Ok(Self { livestreams, day })
    }
}
