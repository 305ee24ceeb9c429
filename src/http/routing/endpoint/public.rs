//! Requests without a token: media files of the origin, the front page, files of the console and the lab player.

use crate::http::errors::api_error::ApiError;
use crate::http::request::headers::quality;
use crate::http::request::payload::Payload;
use crate::http::routing::endpoint::{Input, ParseRequest};

pub(crate) struct OriginRequest {
    pub token: String,
    /// The decoded path below the media directory. No segment is empty, `.` or `..`, or contains a
    /// slash, a backslash or a control character.
    pub path: String,
    /// Whether the client asks for a range.
    pub part: bool,
}

impl ParseRequest for OriginRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            token: input.text("token")?.into_owned(),
            path: input.text("path")?.into_owned(),
            part: input.heads.range.value().is_some(),
        })
    }
}

pub(crate) struct EmbeddedFileRequest {
    pub name: String,
}

impl ParseRequest for EmbeddedFileRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            name: input.text("file")?.into_owned(),
        })
    }
}

pub(crate) struct FrontPageRequest {
    /// Whether the client names `text/html` in `Accept`, as browsers do when they open a page.
    pub accepts_html: bool,
}

impl ParseRequest for FrontPageRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let mut accepted = input.heads.accept.elements();
        let is_html = |element: &str| {
            let mut parts = element.split(';');
            let media = parts.next().unwrap_or_default().trim();
            media.eq_ignore_ascii_case("text/html") && quality(parts) > 0
        };
        Ok(Self {
            accepts_html: accepted.any(is_html),
        })
    }
}
