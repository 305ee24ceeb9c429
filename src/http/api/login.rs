//! Handlers of sign-up, login, log-out and password reset.

use crate::app::App;
use crate::http::api::unwritten;
use crate::http::auth::{PartnerAuth, UserAuth};
use crate::http::context::Context;
use crate::http::endpoint::login::{LoginRequest, ResetRequest, SendResetRequest, SignUpRequest};
use crate::http::error::ApiError;
use crate::http::reply::Reply;

/// PUT auth/email.
///
/// # Errors
/// As the decisions list them.
pub async fn sign_up(
    _app: &App,
    _cx: &Context,
    _auth: PartnerAuth,
    _request: SignUpRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// POST auth/email.
///
/// # Errors
/// As the decisions list them.
pub async fn login(
    _app: &App,
    _cx: &Context,
    _auth: PartnerAuth,
    _request: LoginRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// POST auth/logout.
///
/// # Errors
/// As the decisions list them.
pub async fn logout(_app: &App, _cx: &Context, _auth: UserAuth) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// POST send-reset-password and send-reset-email.
///
/// # Errors
/// As the decisions list them.
pub async fn send_reset(
    _app: &App,
    _cx: &Context,
    _auth: PartnerAuth,
    _request: SendResetRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// POST password/reset.
///
/// # Errors
/// As the decisions list them.
pub async fn reset(
    _app: &App,
    _cx: &Context,
    _auth: PartnerAuth,
    _request: ResetRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}
