//! Handler of the built-in origin.

use crate::app::App;
use crate::http::api::unwritten;
use crate::http::context::Context;
use crate::http::endpoint::origin::OriginRequest;
use crate::http::error::ApiError;
use crate::http::reply::Reply;

/// GET a file of the origin.
///
/// # Errors
/// As the decisions list them.
pub async fn origin(_app: &App, _cx: &Context, _request: OriginRequest) -> Result<Reply, ApiError> {
    Err(unwritten())
}
