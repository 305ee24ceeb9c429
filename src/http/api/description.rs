//! Handlers of the descriptions of the interfaces.

use crate::app::App;
use crate::http::error::ApiError;
use crate::http::matcher::Table;
use crate::http::openapi::About;
use crate::http::reply::Reply;

fn about(app: &App) -> About<'_> {
    About::of(&app.http, &app.front.names, &app.front.messages)
}

/// The OpenAPI document of a listener.
///
/// # Errors
/// `INTERNAL`.
pub fn openapi(app: &App, table: Table) -> Result<Reply, ApiError> {
    app.front.descriptions.json(table, &about(app))
}

/// The page that shows it.
///
/// # Errors
/// `INTERNAL`.
pub fn docs(app: &App, table: Table) -> Result<Reply, ApiError> {
    app.front.descriptions.page(table, &about(app))
}
