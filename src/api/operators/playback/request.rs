//! Requests about running playback sessions.

use playgate_http::errors::api_error::{ApiError, ErrorCode};
use playgate_http::request::payload::Payload;
use playgate_http::routing::endpoint::{Input, ParseRequest};
use playgate_http::routing::resolve::known;
use playgate_types::SessionId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndPlaybackSessionRequest {
    pub session: SessionId,
}

impl ParseRequest for EndPlaybackSessionRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            session: known(
                SessionId::parse(&input.text("session")?),
                ErrorCode::SessionNotFound,
            )?,
        })
    }
}
