//! Handlers of the user's own record.

use crate::app::App;
use crate::http::api::unwritten;
use crate::http::auth::UserAuth;
use crate::http::context::Context;
use crate::http::endpoint::users::{
    ChangePasswordRequest, ChangePinRequest, DeleteUserRequest, DeviceRequest, SessionRequest,
    UpdateUserRequest,
};
use crate::http::error::ApiError;
use crate::http::reply::Reply;

/// GET the record.
///
/// # Errors
/// As the decisions list them.
pub async fn read_user(_app: &App, _cx: &Context, _auth: UserAuth) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// PUT the record: a merge.
///
/// # Errors
/// As the decisions list them.
pub async fn update_user(
    _app: &App,
    _cx: &Context,
    _auth: UserAuth,
    _request: UpdateUserRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// DELETE the account.
///
/// # Errors
/// As the decisions list them.
pub async fn delete_user(
    _app: &App,
    _cx: &Context,
    _auth: UserAuth,
    _request: DeleteUserRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// PUT the password.
///
/// # Errors
/// As the decisions list them.
pub async fn change_password(
    _app: &App,
    _cx: &Context,
    _auth: UserAuth,
    _request: ChangePasswordRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// PUT the PIN.
///
/// # Errors
/// As the decisions list them.
pub async fn change_pin(
    _app: &App,
    _cx: &Context,
    _auth: UserAuth,
    _request: ChangePinRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// POST pin/reset.
///
/// # Errors
/// As the decisions list them.
pub async fn reset_pin(_app: &App, _cx: &Context, _auth: UserAuth) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// GET the devices.
///
/// # Errors
/// As the decisions list them.
pub async fn devices(_app: &App, _cx: &Context, _auth: UserAuth) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// GET a device.
///
/// # Errors
/// As the decisions list them.
pub async fn device(
    _app: &App,
    _cx: &Context,
    _auth: UserAuth,
    _request: DeviceRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// DELETE all devices.
///
/// # Errors
/// As the decisions list them.
pub async fn clear_devices(_app: &App, _cx: &Context, _auth: UserAuth) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// DELETE a device.
///
/// # Errors
/// As the decisions list them.
pub async fn remove_device(
    _app: &App,
    _cx: &Context,
    _auth: UserAuth,
    _request: DeviceRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// GET the login sessions.
///
/// # Errors
/// As the decisions list them.
pub async fn sessions(_app: &App, _cx: &Context, _auth: UserAuth) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// GET a login session.
///
/// # Errors
/// As the decisions list them.
pub async fn session(
    _app: &App,
    _cx: &Context,
    _auth: UserAuth,
    _request: SessionRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// DELETE all login sessions.
///
/// # Errors
/// As the decisions list them.
pub async fn end_sessions(_app: &App, _cx: &Context, _auth: UserAuth) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// DELETE a login session.
///
/// # Errors
/// As the decisions list them.
pub async fn end_session(
    _app: &App,
    _cx: &Context,
    _auth: UserAuth,
    _request: SessionRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// GET the user's offers.
///
/// # Errors
/// As the decisions list them.
pub async fn offers(_app: &App, _cx: &Context, _auth: UserAuth) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// GET all that is held about the user.
///
/// # Errors
/// As the decisions list them.
pub async fn export(_app: &App, _cx: &Context, _auth: UserAuth) -> Result<Reply, ApiError> {
    Err(unwritten())
}
