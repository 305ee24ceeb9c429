//! Requests about operators and their tokens.

use crate::operators::request_members::{label, name};
use playgate_http::errors::api_error::{ApiError, CombineResults};
use playgate_http::request::payload::Payload;
use playgate_http::routing::endpoint::{Input, ParseRequest};
use playgate_http::routing::resolve::OperatorIdOrName;
use playgate_types::{Malformed, Role};

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
