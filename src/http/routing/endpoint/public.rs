//! Requests without a token: media files of the origin and files of the console.

use crate::http::errors::api_error::ApiError;
use crate::http::routing::endpoint::{Input, ParseRequest, Payload};

pub(crate) struct OriginRequest {
    pub token: String,
    /// The decoded path below the media directory. No segment is empty, `.` or `..`, or contains a
    /// slash, a backslash or a control character.
    pub path: String,
}

impl ParseRequest for OriginRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            token: input.text("token")?.into_owned(),
            path: input.text("path")?.into_owned(),
        })
    }
}

pub(crate) struct ConsoleFileRequest {
    pub name: String,
}

impl ParseRequest for ConsoleFileRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            name: input.text("file")?.into_owned(),
        })
    }
}
