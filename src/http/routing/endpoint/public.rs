//! Requests without a token: media files of the origin, the reset page, the interface descriptions,
//! the console's files, and the probes of the operations listener.

use crate::http::errors::api_error::ApiError;
use crate::http::routing::endpoint::reset_page::{ResetFormRequest, ResetPageRequest};
use crate::http::routing::endpoint::{Input, Payload};
use crate::http::routing::route::PublicRoute;
use crate::http::routing::router::RouteSet;

pub(crate) struct OriginRequest {
    pub token: String,
    /// The decoded path below the media directory. No segment is empty, `.` or `..`, or contains a
    /// slash, a backslash or a control character.
    pub path: String,
}

pub(crate) enum PublicEndpoint {
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
    ConsoleFile(String),
}

impl PublicEndpoint {
    /// Parses the parameters of a route.
    ///
    /// # Errors
    /// `INVALID_REQUEST` that names the parameters.
    pub(crate) fn parse(
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
