//! Requests about the activity of the service.

use playgate_http::errors::api_error::ApiError;
use playgate_http::request::payload::Payload;
use playgate_http::routing::endpoint::{Input, ParseRequest};
use playgate_observe::activity::ActivityPeriod;
use playgate_types::Malformed;

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
