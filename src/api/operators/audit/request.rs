//! Requests about the audit record.

use playgate_http::errors::api_error::{ApiError, CombineResults};
use playgate_http::request::payload::Payload;
use playgate_http::routing::endpoint::{Input, ParseRequest};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AuditRequest {
    pub before: Option<u64>,
    pub limit: usize,
}

impl ParseRequest for AuditRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let before = input.number("before", 18, "must be the number of an audit entry");
        let (before, limit) = (before, input.page()).combine()?;
        Ok(Self { before, limit })
    }
}
