//! Requests about the activity of the service.

use crate::http::errors::api_error::ApiError;
use crate::http::request::payload::Payload;
use crate::http::routing::endpoint::{Input, ParseRequest};
use crate::observe::activity::ActivityPeriod;
use crate::types::Malformed;

pub(crate) struct ActivityRequest {
    pub period: ActivityPeriod,
}

impl ParseRequest for ActivityRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let period = input.query.parsed("period", |text| match text {
            "hour" => Ok(ActivityPeriod::Hour),
            "day" => Ok(ActivityPeriod::Day),
            _ => Err(Malformed("must be hour or day")),
        })?;
        Ok(Self {
            period: period.unwrap_or(ActivityPeriod::Hour),
        })
    }
}
