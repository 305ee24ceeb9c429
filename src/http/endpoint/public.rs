//! Requests without a token: files of the origin, the page of resets, the descriptions of the
//! interfaces, the console's files, and the operations listener's probes.

use super::reset_page::{ResetFormRequest, ResetPageRequest};
use super::{Input, Payload};
use crate::http::error::ApiError;
use crate::http::route::PublicRoute;
use crate::http::router::RouteSet;

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
pub enum PublicEndpoint {
    Origin(OriginRequest),
    ResetPage(ResetPageRequest),
    ResetForm(ResetFormRequest),
    Openapi(RouteSet),
    Docs(RouteSet),
    Livez,
    Readyz,
    Metrics,
    ConsoleEntry,
    Console,
    /// A file of the console, by its name.
    ConsoleFile(String),
}

impl PublicEndpoint {
    /// Reads the parameters of a route.
    ///
    /// # Errors
    /// What is wrong with which parameter.
    pub fn parse(
        route: PublicRoute,
        input: &Input<'_>,
        payload: Payload,
    ) -> Result<Self, ApiError> {
        Ok(match route {
            PublicRoute::Origin => Self::Origin(OriginRequest {
                token: input.text("token")?.into_owned(),
                path: input.text("path")?.into_owned(),
            }),
            PublicRoute::ResetPage => Self::ResetPage(ResetPageRequest::parse(input)?),
            PublicRoute::ResetForm => Self::ResetForm(ResetFormRequest::parse(payload)?),
            PublicRoute::Openapi(table) => Self::Openapi(table),
            PublicRoute::Docs(table) => Self::Docs(table),
            PublicRoute::Livez => Self::Livez,
            PublicRoute::Readyz => Self::Readyz,
            PublicRoute::Metrics => Self::Metrics,
            PublicRoute::ConsoleEntry => Self::ConsoleEntry,
            PublicRoute::Console => Self::Console,
            PublicRoute::ConsoleFile => Self::ConsoleFile(input.text("file")?.into_owned()),
        })
    }
}
