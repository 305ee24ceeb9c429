//! Partners and their access tokens.

use serde::Serialize;

use crate::operators::lab;
use crate::operators::request_members::PartnerRequest;
use crate::operators::request_members::{label, name};
use playgate_domain::partners::{Partner, PartnerUpdate};
use playgate_http::offload::bulk;
use playgate_http::routing::resolve;
use playgate_http::{
    ApiError, CombineResults, Context, Input, OperatorAuth, ParseRequest, PartnerIdOrName, Payload,
    Reply,
};
use playgate_services::Services;
use playgate_types::{DurationUnit, PartnerKind, TokenInfo};

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

pub(crate) async fn partners(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
) -> Result<Reply, ApiError> {
    let counts = services.accounts.counts();
    let lines: Vec<_> = services
        .partners
        .list()
        .iter()
        .map(|partner| PartnerLine::new(partner, counts.get(&partner.id).copied().unwrap_or(0)))
        .collect();
    Reply::json(&lines)
}

pub(crate) async fn add_partner(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: AddPartnerRequest,
) -> Result<Reply, ApiError> {
    if request.kind == PartnerKind::Lab {
        lab::check_environment(services)?;
    }
    let added = services.partners.add(&request.name, request.kind, cx.now)?;
    let (id, token) = added.await?;
    let id = id.to_string();
    // The only time that the token is shown: the store has its hash.
    let access_token = token.reveal();
    Reply::made(
        &id,
        &AddedPartner {
            partner_id: id.clone(),
            access_token,
        },
    )
}

pub(crate) async fn change_partner(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: ChangePartnerRequest,
) -> Result<Reply, ApiError> {
    let id = resolve::partner(services, &request.partner)?;
    services.partners.update(id, request.update).await?;
    Ok(Reply::empty_object())
}

pub(crate) async fn remove_partner(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: PartnerRequest,
) -> Result<Reply, ApiError> {
    let now = cx.now;
    let id = resolve::partner(services, &request.partner)?;
    let accounts = services.accounts.clone();
    // Disabled first and deleted last, so that a removal that was interrupted can be repeated.
    bulk(services, move || accounts.remove_partner(id, now)).await?;
    Ok(Reply::no_content())
}

pub(crate) async fn tokens(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: PartnerRequest,
) -> Result<Reply, ApiError> {
    let id = resolve::partner(services, &request.partner)?;
    let partners = services.partners.list();
    let partner = partners.iter().find(|partner| partner.id == id);
    let lines: Vec<_> = partner
        .into_iter()
        .flat_map(|partner| &partner.tokens)
        .map(TokenLine::from)
        .collect();
    Reply::json(&lines)
}

pub(crate) async fn add_token(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: AddPartnerTokenRequest,
) -> Result<Reply, ApiError> {
    let id = resolve::partner(services, &request.partner)?;
    let added = services.partners.add_token(id, &request.label, cx.now)?;
    let (info, token) = added.await?;
    let token_id = info.handle;
    let access_token = token.reveal();
    Reply::made(
        &token_id,
        &AddedToken {
            token_id: token_id.clone(),
            access_token,
        },
    )
}

pub(crate) async fn revoke_token(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: PartnerTokenRequest,
) -> Result<Reply, ApiError> {
    let id = resolve::partner(services, &request.partner)?;
    services.partners.revoke_token(id, &request.token).await?;
    Ok(Reply::no_content())
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PartnerLine {
    pub partner_id: String,
    pub name: String,
    pub kind: &'static str,
    pub created_timestamp: i64,
    pub disabled: bool,
    pub telemetry_duration_unit: &'static str,
    pub tokens: usize,
    pub users: usize,
}

impl PartnerLine {
    pub(crate) fn new(partner: &Partner, users: usize) -> Self {
        Self {
            partner_id: partner.id.to_string(),
            name: partner.name.clone(),
            kind: partner.kind.as_str(),
            created_timestamp: partner.created.0,
            disabled: partner.disabled,
            telemetry_duration_unit: partner
                .duration_unit
                .map_or("default", DurationUnit::as_str),
            tokens: partner.tokens.len(),
            users,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AddedPartner<'a> {
    pub partner_id: String,
    pub access_token: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TokenLine {
    pub token_id: String,
    pub label: String,
    pub created_timestamp: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_used_timestamp: Option<i64>,
}

impl From<&TokenInfo> for TokenLine {
    fn from(token: &TokenInfo) -> Self {
        Self {
            token_id: token.handle.clone(),
            label: token.label.clone(),
            created_timestamp: token.created.0,
            last_used_timestamp: token.used.map(|used| used.0),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AddedToken<'a> {
    pub token_id: String,
    pub access_token: &'a str,
}
