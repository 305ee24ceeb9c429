//! Requests about running playback sessions.

use crate::http::errors::api_error::{ApiError, ErrorCode};
use crate::http::request::payload::Payload;
use crate::http::routing::endpoint::{Input, ParseRequest};
use crate::http::routing::resolve::known;
use crate::types::SessionId;

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
