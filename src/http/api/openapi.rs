//! Handlers of the OpenAPI documents.

use crate::http::errors::api_error::ApiError;
use crate::http::openapi::About;
use crate::http::response::reply::Reply;
use crate::http::routing::router::RouteSet;
use crate::http::state::HttpState;

fn about(http: &HttpState) -> About<'_> {
    About::new(&http.settings, &http.names, &http.messages)
}

/// `GET /openapi.json`: returns the OpenAPI document of the listener.
pub(crate) fn openapi(http: &HttpState, table: RouteSet) -> Result<Reply, ApiError> {
    http.descriptions.json(table, &about(http))
}

/// `GET /docs`: returns the OpenAPI document as an HTML page.
pub(crate) fn docs(http: &HttpState, table: RouteSet) -> Result<Reply, ApiError> {
    http.descriptions.page(table, &about(http))
}
