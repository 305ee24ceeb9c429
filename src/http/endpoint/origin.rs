//! Requests without a token: files of the origin, the page of resets, the descriptions of the
//! interfaces, the console's files, and the operations listener's probes.

use super::reset_page::{ResetFormRequest, ResetPageRequest};
use super::{Input, Payload};
use crate::http::error::ApiError;
use crate::http::matcher::Table;
use crate::http::routes::OpenRoute;

/// A file of the origin.
pub struct OriginRequest {
    /// The signed token of the path, as it was sent.
    pub token: String,
    /// The path below the media directory, decoded: segments without `.` and `..`, none of them
    /// empty, none with a slash, backslash or control character.
    pub path: String,
}

/// The endpoints that take no token.
#[expect(missing_docs, reason = "each holds the request of its name")]
pub enum OpenEndpoint {
    Origin(OriginRequest),
    ResetPage(ResetPageRequest),
    ResetForm(ResetFormRequest),
    Openapi(Table),
    Docs(Table),
    Livez,
    Readyz,
    Metrics,
    ConsoleEntry,
    Console,
    /// A file of the console, by its name.
    ConsoleFile(String),
}

impl OpenEndpoint {
    /// Reads the parameters of a route.
    ///
    /// # Errors
    /// What is wrong with which parameter.
    pub fn parse(route: OpenRoute, input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        Ok(match route {
            OpenRoute::Origin => Self::Origin(OriginRequest {
                token: input.text("token")?.into_owned(),
                path: input.text("path")?.into_owned(),
            }),
            OpenRoute::ResetPage => Self::ResetPage(ResetPageRequest::parse(input)?),
            OpenRoute::ResetForm => Self::ResetForm(ResetFormRequest::parse(payload)?),
            OpenRoute::Openapi(table) => Self::Openapi(table),
            OpenRoute::Docs(table) => Self::Docs(table),
            OpenRoute::Livez => Self::Livez,
            OpenRoute::Readyz => Self::Readyz,
            OpenRoute::Metrics => Self::Metrics,
            OpenRoute::ConsoleEntry => Self::ConsoleEntry,
            OpenRoute::Console => Self::Console,
            OpenRoute::ConsoleFile => Self::ConsoleFile(input.text("file")?.into_owned()),
        })
    }
}
