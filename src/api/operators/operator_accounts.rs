//! Operators and their tokens.

use serde::Serialize;

use crate::operators::partners::TokenLine;
use crate::operators::request_members::{label, name};
use playgate_domain::operators::Operator;
use playgate_http::routing::resolve::{self, OperatorIdOrName};
use playgate_http::{
    ApiError, CombineResults, Context, Input, OperatorAuth, ParseRequest, Payload, Reply,
};
use playgate_services::Services;
use playgate_types::{Described, JsonType, Malformed, OperatorId, Role, UnixSeconds};

crate::openapi::words::words! { AddedOperator, AddedOperatorToken, OperatorLine => r##"
[requests.NewOperator]
name = "Name: Name, unique among operators."
role = "Role: Role of the operator."

[operations.admin_operators]
summary = "List operators"
returns."200" = "[OperatorLine]: The operators."

[operations.admin_add_operator]
summary = "Add an operator"
send = "NewOperator: The operator."
returns."200" = "AddedOperator: The operator was added, with a first token."
errors = ["NAME_IN_USE"]

[operations.admin_revoke_operator]
summary = "Remove an operator"
returns."204" = { text = "The operator was removed; their tokens are refused." }
errors = ["OPERATOR_NOT_FOUND"]

[operations.admin_operator_tokens]
summary = "List the tokens of an operator"
returns."200" = "[TokenLine]: The tokens."
errors = ["OPERATOR_NOT_FOUND"]

[operations.admin_add_operator_token]
summary = "Create a token of an operator"
send = "NewToken?: The label."
returns."200" = "AddedOperatorToken: The token."
errors = ["OPERATOR_NOT_FOUND"]

[operations.admin_revoke_operator_token]
summary = "Revoke a token of an operator"
returns."204" = { text = "The token was revoked." }
errors = ["OPERATOR_NOT_FOUND", "TOKEN_NOT_FOUND"]
"## }

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AddOperatorRequest {
    pub name: String,
    pub role: Role,
}

impl ParseRequest for AddOperatorRequest {
    fn parse(_input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        let role = body.required("role", |text| {
            Role::parse(text).ok_or(Malformed("must be admin, content, agent or observer"))
        });
        let (name, role) = (name(&body), role).combine()?;
        Ok(Self { name, role })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OperatorRequest {
    pub operator: OperatorIdOrName,
}

impl ParseRequest for OperatorRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            operator: OperatorIdOrName::read(&input.text("operator")?),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AddOperatorTokenRequest {
    pub operator: OperatorIdOrName,
    pub label: String,
}

impl ParseRequest for AddOperatorTokenRequest {
    fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            operator: OperatorIdOrName::read(&input.text("operator")?),
            label: label(&payload.object()?)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OperatorTokenRequest {
    pub operator: OperatorIdOrName,
    pub token: String,
}

impl ParseRequest for OperatorTokenRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            operator: OperatorIdOrName::read(&input.text("operator")?),
            token: input.text("token")?.into_owned(),
        })
    }
}

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

#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OperatorLine {
    /// Id of the operator.
    pub operator_id: OperatorId,
    /// Name of the operator.
    pub name: String,
    /// Role, which decides what the operator may do.
    pub role: Role,
    /// Time at which the operator was added.
    pub created_timestamp: UnixSeconds,
}

impl From<&Operator> for OperatorLine {
    fn from(operator: &Operator) -> Self {
        Self {
            operator_id: operator.id,
            name: operator.name.clone(),
            role: operator.role,
            created_timestamp: operator.created,
        }
    }
}

#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AddedOperator<'a> {
    /// Id of the operator.
    #[described(JsonType::Named("Id"))]
    pub operator_id: String,
    /// First token. It is shown only in this response.
    pub token: &'a str,
}

#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AddedOperatorToken<'a> {
    /// Id used to revoke the token.
    pub token_id: String,
    /// The token. It is shown only in this response.
    pub token: &'a str,
}
