//! Handlers of users.

use crate::app::App;
use crate::http::api::unwritten;
use crate::http::auth::OperatorAuth;
use crate::http::context::Context;
use crate::http::endpoint::admin::users::{
    AddUserRequest, ChangeUserRequest, GrantRequest, RevokeGrantRequest, SetPinRequest,
    UserRequest, UsersRequest, WhyRequest,
};
use crate::http::error::ApiError;
use crate::http::reply::Reply;

/// GET users.
///
/// # Errors
/// As the decisions list them.
pub async fn users(
    _app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    _request: UsersRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// POST users.
///
/// # Errors
/// As the decisions list them.
pub async fn add_user(
    _app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    _request: AddUserRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// GET a user.
///
/// # Errors
/// As the decisions list them.
pub async fn show_user(
    _app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    _request: UserRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// PUT a user: a merge.
///
/// # Errors
/// As the decisions list them.
pub async fn change_user(
    _app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    _request: ChangeUserRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// DELETE a user.
///
/// # Errors
/// As the decisions list them.
pub async fn remove_user(
    _app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    _request: UserRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// GET the grants.
///
/// # Errors
/// As the decisions list them.
pub async fn grants(
    _app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    _request: UserRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// PUT a grant.
///
/// # Errors
/// As the decisions list them.
pub async fn grant(
    _app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    _request: GrantRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// DELETE a grant.
///
/// # Errors
/// As the decisions list them.
pub async fn revoke_grant(
    _app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    _request: RevokeGrantRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// PUT the PIN.
///
/// # Errors
/// As the decisions list them.
pub async fn set_pin(
    _app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    _request: SetPinRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// GET the sessions.
///
/// # Errors
/// As the decisions list them.
pub async fn sessions(
    _app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    _request: UserRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// POST logout.
///
/// # Errors
/// As the decisions list them.
pub async fn logout(
    _app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    _request: UserRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// DELETE the devices.
///
/// # Errors
/// As the decisions list them.
pub async fn clear_devices(
    _app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    _request: UserRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// GET why.
///
/// # Errors
/// As the decisions list them.
pub async fn why(
    _app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    _request: WhyRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}
