//! Handlers of the console's files.

use http::header::LOCATION;
use http::{HeaderValue, StatusCode};

use crate::app::App;
use crate::http::error::{ApiError, ErrorCode};
use crate::http::reply::Reply;

/// GET of where people try first: leads to the console. The address is relative, so that it holds
/// behind a proxy that puts a path in front.
///
/// # Errors
/// None.
pub fn entry() -> Result<Reply, ApiError> {
    Ok(Reply::no_content()
        .with_status(StatusCode::FOUND)
        .with_header(LOCATION, HeaderValue::from_static("console/")))
}

/// GET the page.
///
/// # Errors
/// None: the page is there.
pub fn page(app: &App) -> Result<Reply, ApiError> {
    file(app, "index.html")
}

/// GET a file of it.
///
/// # Errors
/// `PATH_NOT_FOUND`.
pub fn file(app: &App, name: &str) -> Result<Reply, ApiError> {
    let found = app.front.console.file(name);
    found.ok_or_else(|| ApiError::new(ErrorCode::PathNotFound, "the console has no such file"))
}
