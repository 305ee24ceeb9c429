//! Requests about partners and their access tokens.

use crate::operators::request_members::{label, name};
use playgate_domain::partners::PartnerUpdate;
use playgate_http::errors::api_error::{ApiError, CombineResults};
use playgate_http::request::payload::Payload;
use playgate_http::routing::endpoint::{Input, ParseRequest};
use playgate_http::routing::resolve::PartnerIdOrName;
use playgate_types::{DurationUnit, PartnerKind};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AddPartnerRequest {
    pub name: String,
    pub kind: PartnerKind,
}

impl ParseRequest for AddPartnerRequest {
    fn parse(_input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        let (name, kind) = (name(&body), body.parsed("kind", PartnerKind::parse)).combine()?;
        Ok(Self {
            name,
            kind: kind.unwrap_or_default(),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartnerRequest {
    pub partner: PartnerIdOrName,
}

impl ParseRequest for PartnerRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            partner: PartnerIdOrName::read(&input.text("partner")?),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChangePartnerRequest {
    pub partner: PartnerIdOrName,
    pub update: PartnerUpdate,
}

impl ParseRequest for ChangePartnerRequest {
    fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        let (partner, disabled, duration_unit) = (
            input.text("partner"),
            body.boolean("disabled"),
            body.parsed("telemetryDurationUnit", DurationUnit::parse_override),
        )
            .combine()?;
        Ok(Self {
            partner: PartnerIdOrName::read(&partner),
            update: PartnerUpdate {
                disabled,
                duration_unit,
            },
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AddPartnerTokenRequest {
    pub partner: PartnerIdOrName,
    pub label: String,
}

impl ParseRequest for AddPartnerTokenRequest {
    fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            partner: PartnerIdOrName::read(&input.text("partner")?),
            label: label(&payload.object()?)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartnerTokenRequest {
    pub partner: PartnerIdOrName,
    /// The id of the token in the list of tokens, not the token itself.
    pub token: String,
}

impl ParseRequest for PartnerTokenRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            partner: PartnerIdOrName::read(&input.text("partner")?),
            token: input.text("token")?.into_owned(),
        })
    }
}
