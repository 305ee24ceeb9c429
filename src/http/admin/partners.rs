//! Handlers of partners and operators.

use crate::app::App;
use crate::http::api::unwritten;
use crate::http::auth::OperatorAuth;
use crate::http::context::Context;
use crate::http::endpoint::admin::system::{
    AddOperatorRequest, AddPartnerRequest, OperatorRequest, PartnerRequest, PartnerTokenRequest,
};
use crate::http::error::ApiError;
use crate::http::reply::Reply;

/// GET partners.
///
/// # Errors
/// As the decisions list them.
pub async fn partners(_app: &App, _cx: &Context, _auth: OperatorAuth) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// POST partners.
///
/// # Errors
/// As the decisions list them.
pub async fn add_partner(
    _app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    _request: AddPartnerRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// DELETE a partner.
///
/// # Errors
/// As the decisions list them.
pub async fn remove_partner(
    _app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    _request: PartnerRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// GET the access tokens.
///
/// # Errors
/// As the decisions list them.
pub async fn tokens(
    _app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    _request: PartnerRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// POST an access token.
///
/// # Errors
/// As the decisions list them.
pub async fn add_token(
    _app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    _request: PartnerRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// DELETE an access token.
///
/// # Errors
/// As the decisions list them.
pub async fn revoke_token(
    _app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    _request: PartnerTokenRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// GET operators.
///
/// # Errors
/// As the decisions list them.
pub async fn operators(_app: &App, _cx: &Context, _auth: OperatorAuth) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// POST operators.
///
/// # Errors
/// As the decisions list them.
pub async fn add_operator(
    _app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    _request: AddOperatorRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// DELETE an operator.
///
/// # Errors
/// As the decisions list them.
pub async fn revoke_operator(
    _app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    _request: OperatorRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}
