//! Handlers of the store.

use crate::app::App;
use crate::http::api::unwritten;
use crate::http::auth::OperatorAuth;
use crate::http::context::Context;
use crate::http::error::ApiError;
use crate::http::reply::Reply;

/// POST verify.
///
/// # Errors
/// As the decisions list them.
pub async fn verify(_app: &App, _cx: &Context, _auth: OperatorAuth) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// POST rebuild.
///
/// # Errors
/// As the decisions list them.
pub async fn rebuild(_app: &App, _cx: &Context, _auth: OperatorAuth) -> Result<Reply, ApiError> {
    Err(unwritten())
}
