//! Handlers of the console's static files.

use http::header::LOCATION;
use http::{HeaderValue, StatusCode};

use crate::http::access::auth::Anyone;
use crate::http::console;
use crate::http::errors::api_error::{ApiError, ErrorCode};
use crate::http::request::context::Context;
use crate::http::response::reply::Reply;
use crate::http::routing::endpoint::public::EmbeddedFileRequest;
use crate::http::state::HttpState;

pub(crate) fn entry(_http: &HttpState, _cx: &Context, _: Anyone) -> Result<Reply, ApiError> {
    Ok(Reply::no_content()
        .with_status(StatusCode::FOUND)
        // Relative, so that it also works behind a proxy that adds a path prefix.
        .with_header(LOCATION, HeaderValue::from_static("console/")))
}

pub(crate) fn page(_http: &HttpState, _cx: &Context, _: Anyone) -> Result<Reply, ApiError> {
    find("index.html")
}

pub(crate) fn file(
    _http: &HttpState,
    _cx: &Context,
    _: Anyone,
    request: EmbeddedFileRequest,
) -> Result<Reply, ApiError> {
    find(&request.name)
}

fn find(name: &str) -> Result<Reply, ApiError> {
    let found = console::file(name);
    found.ok_or_else(|| ApiError::new(ErrorCode::PathNotFound, "the console has no such file"))
}
