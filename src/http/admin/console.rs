//! Handlers of the console's static files.

use http::header::LOCATION;
use http::{HeaderValue, StatusCode};

use crate::app::App;
use crate::http::errors::api_error::{ApiError, ErrorCode};
use crate::http::response::reply::Reply;

/// `GET /` and `GET /console`: redirects to the console.
///
/// The target is relative, so that it also works behind a proxy that adds a path prefix.
pub(crate) fn entry() -> Result<Reply, ApiError> {
    Ok(Reply::no_content()
        .with_status(StatusCode::FOUND)
        .with_header(LOCATION, HeaderValue::from_static("console/")))
}

/// `GET /console/`: returns the console's page.
pub(crate) fn page(app: &App) -> Result<Reply, ApiError> {
    file(app, "index.html")
}

/// `GET /console/{file}`: returns a file of the console.
///
/// # Errors
/// `PATH_NOT_FOUND`.
pub(crate) fn file(app: &App, name: &str) -> Result<Reply, ApiError> {
    let found = app.front.console.file(name);
    found.ok_or_else(|| ApiError::new(ErrorCode::PathNotFound, "the console has no such file"))
}
