//! Handlers of the descriptions of the interfaces.

use crate::app::App;
use crate::http::error::ApiError;
use crate::http::openapi::About;
use crate::http::reply::Reply;
use crate::http::router::RouteSet;

fn about(app: &App) -> About<'_> {
    About::new(&app.http, &app.front.names, &app.front.messages)
}

/// The OpenAPI document of a listener.
///
/// # Errors
/// `INTERNAL`.
pub fn openapi(app: &App, table: RouteSet) -> Result<Reply, ApiError> {
    app.front.descriptions.json(table, &about(app))
}

/// The page that shows it.
///
/// # Errors
/// `INTERNAL`.
pub fn docs(app: &App, table: RouteSet) -> Result<Reply, ApiError> {
    app.front.descriptions.page(table, &about(app))
}
