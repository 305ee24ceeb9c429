//! Requests about the fleet.

use playgate_http::errors::api_error::ApiError;
use playgate_http::request::payload::Payload;
use playgate_http::routing::endpoint::{Input, ParseRequest};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HandOverRequest {
    /// Name of the next owner.
    pub to: Option<String>,
}

impl ParseRequest for HandOverRequest {
    fn parse(_input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        Ok(Self {
            to: body.text("to")?.map(str::to_owned),
        })
    }
}
