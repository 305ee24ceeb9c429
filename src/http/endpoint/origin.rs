//! Requests without a token: files of the origin, and the operations listener's probes.

use super::Input;
use crate::http::error::ApiError;
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
    Livez,
    Readyz,
    Metrics,
}

impl OpenEndpoint {
    /// Reads the parameters of a route.
    ///
    /// # Errors
    /// What is wrong with which parameter.
    pub fn parse(route: OpenRoute, input: &Input<'_>) -> Result<Self, ApiError> {
        Ok(match route {
            OpenRoute::Origin => Self::Origin(OriginRequest {
                token: input.text("token")?.into_owned(),
                path: input.text("path")?.into_owned(),
            }),
            OpenRoute::Livez => Self::Livez,
            OpenRoute::Readyz => Self::Readyz,
            OpenRoute::Metrics => Self::Metrics,
        })
    }
}
