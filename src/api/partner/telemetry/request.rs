//! The request of telemetry ingestion.

use playgate_http::errors::api_error::ApiError;
use playgate_http::request::body::SentBody;
use playgate_http::request::payload::Payload;
use playgate_http::routing::endpoint::{Input, ParseRequest};

/// The body is not parsed here: events are parsed one by one, so that a malformed event does not reject its
/// batch.
pub(crate) struct TelemetryRequest {
    pub body: SentBody,
}

/// Reports of a player about the session that the token names.
pub(crate) struct CmcdRequest {
    pub token: String,
    pub body: SentBody,
}

impl ParseRequest for CmcdRequest {
    fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            token: input.text("token")?.into_owned(),
            body: payload.sent()?,
        })
    }
}

impl ParseRequest for TelemetryRequest {
    fn parse(_input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            body: payload.sent()?,
        })
    }
}
