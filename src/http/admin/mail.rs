//! Handlers of mail.

use crate::app::App;
use crate::http::api::unwritten;
use crate::http::auth::OperatorAuth;
use crate::http::context::Context;
use crate::http::endpoint::admin::system::{MailRequest, TestMailRequest};
use crate::http::error::ApiError;
use crate::http::reply::Reply;

/// GET the queue and the sink.
///
/// # Errors
/// As the decisions list them.
pub async fn mails(_app: &App, _cx: &Context, _auth: OperatorAuth) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// GET a message.
///
/// # Errors
/// As the decisions list them.
pub async fn show(
    _app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    _request: MailRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// POST a test message.
///
/// # Errors
/// As the decisions list them.
pub async fn test(
    _app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    _request: TestMailRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}
