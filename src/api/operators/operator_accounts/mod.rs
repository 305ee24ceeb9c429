//! Handlers of operators and their tokens.

pub(crate) mod request;

use crate::operators::operator_accounts::request::{
    AddOperatorRequest, AddOperatorTokenRequest, OperatorRequest, OperatorTokenRequest,
};
use crate::operators::partners::answer::{
    AddedOperator, AddedOperatorToken, OperatorLine, TokenLine,
};
use playgate_http::access::auth::OperatorAuth;
use playgate_http::errors::api_error::ApiError;
use playgate_http::request::context::Context;
use playgate_http::response::reply::Reply;
use playgate_http::routing::resolve;
use playgate_services::Services;

pub(crate) async fn operators(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
) -> Result<Reply, ApiError> {
    let operators = services.operators.list();
    let lines: Vec<_> = operators.iter().map(OperatorLine::from).collect();
    Reply::json(&lines)
}

pub(crate) async fn add_operator(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: AddOperatorRequest,
) -> Result<Reply, ApiError> {
    let AddOperatorRequest { name, role } = request;
    let (id, token) = services.operators.add(&name, role, cx.now)?.await?;
    let id = id.to_string();
    // The only time that the token is shown: the store has its hash.
    let token = token.reveal();
    Reply::made(
        &id,
        &AddedOperator {
            operator_id: id.clone(),
            token,
        },
    )
}

pub(crate) async fn revoke_operator(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: OperatorRequest,
) -> Result<Reply, ApiError> {
    let id = resolve::operator(services, &request.operator)?;
    services.operators.revoke(id).await?;
    Ok(Reply::no_content())
}

pub(crate) async fn tokens(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: OperatorRequest,
) -> Result<Reply, ApiError> {
    let id = resolve::operator(services, &request.operator)?;
    let tokens = services.operators.tokens_of(id);
    Reply::json(&tokens.iter().map(TokenLine::from).collect::<Vec<_>>())
}

pub(crate) async fn add_token(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: AddOperatorTokenRequest,
) -> Result<Reply, ApiError> {
    let id = resolve::operator(services, &request.operator)?;
    let added = services.operators.add_token(id, &request.label, cx.now)?;
    let (info, token) = added.await?;
    let token_id = info.handle;
    let token = token.reveal();
    Reply::made(
        &token_id,
        &AddedOperatorToken {
            token_id: token_id.clone(),
            token,
        },
    )
}

pub(crate) async fn revoke_token(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: OperatorTokenRequest,
) -> Result<Reply, ApiError> {
    let id = resolve::operator(services, &request.operator)?;
    services.operators.revoke_token(id, &request.token).await?;
    Ok(Reply::no_content())
}
