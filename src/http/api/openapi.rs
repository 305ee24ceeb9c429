//! Handlers of the OpenAPI documents.

use crate::app::App;
use crate::http::errors::api_error::ApiError;
use crate::http::openapi::About;
use crate::http::response::reply::Reply;
use crate::http::routing::router::RouteSet;

fn about(app: &App) -> About<'_> {
    About::new(&app.http, &app.front.names, &app.front.messages)
}

/// `GET /openapi.json`: returns the OpenAPI document of the listener.
pub(crate) fn openapi(app: &App, table: RouteSet) -> Result<Reply, ApiError> {
    app.front.descriptions.json(table, &about(app))
}

/// `GET /docs`: returns the OpenAPI document as an HTML page.
pub(crate) fn docs(app: &App, table: RouteSet) -> Result<Reply, ApiError> {
    app.front.descriptions.page(table, &about(app))
}
