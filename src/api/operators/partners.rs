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
use playgate_types::{
    Described, DurationUnit, JsonType, PartnerId, PartnerKind, TokenInfo, UnixSeconds,
};

crate::openapi::words::words! { AddedPartner, AddedToken, PartnerLine, TokenLine => r##"
[requests.NewPartner]
name = "Name: Name, unique among partners."
kind = "PartnerKind?: Kind of the partner; `standard` if absent. `lab` is refused in production."

[requests.PartnerChange]
disabled = "boolean?: Disables or enables the partner. Tokens of a disabled partner are refused."
telemetryDurationUnit = "PartnerDurationUnit?: Unit of the durations that the partner's players send."

[operations.admin_partners]
summary = "List partners"
returns."200" = "[PartnerLine]: The partners."

[operations.admin_add_partner]
summary = "Add a partner"
send = "NewPartner: The partner."
returns."200" = "AddedPartner: The partner was added, with a first token."
errors = ["NAME_IN_USE", "LAB_NOT_ALLOWED"]

[operations.admin_change_partner]
summary = "Change a partner"
text = "Absent members stay as they are. Disabling a partner refuses its requests from the next one on and keeps its users. A new duration unit applies to every report made afterwards, also to events received before."
send = "PartnerChange: The changes."
returns."200" = "EmptyObject: The partner was changed."
errors = ["PARTNER_NOT_FOUND"]

[operations.admin_remove_partner]
summary = "Remove a partner with its users"
text = "The partner is disabled first and removed last. Repeat the request if it was interrupted."
returns."204" = { text = "The partner was removed." }
errors = ["PARTNER_NOT_FOUND"]

[operations.admin_partner_tokens]
summary = "List the access tokens of a partner"
returns."200" = "[TokenLine]: The tokens."
errors = ["PARTNER_NOT_FOUND"]

[operations.admin_add_partner_token]
summary = "Create an access token of a partner"
send = "NewToken?: The label."
returns."200" = "AddedToken: The token."
errors = ["PARTNER_NOT_FOUND"]

[operations.admin_revoke_partner_token]
summary = "Revoke an access token of a partner"
returns."204" = { text = "The token was revoked." }
errors = ["PARTNER_NOT_FOUND", "TOKEN_NOT_FOUND"]
"## }

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

#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PartnerLine {
    /// Id of the partner.
    pub partner_id: PartnerId,
    /// Name of the partner.
    pub name: String,
    /// Whether viewers use the clients of the partner.
    #[described(JsonType::Named("PartnerKind"))]
    pub kind: &'static str,
    /// Time at which the partner was added.
    pub created_timestamp: UnixSeconds,
    /// Whether the partner is disabled.
    pub disabled: bool,
    /// Unit of the durations that the partner's players send.
    #[described(JsonType::Named("PartnerDurationUnit"))]
    pub telemetry_duration_unit: &'static str,
    /// Number of access tokens of the partner.
    pub tokens: usize,
    /// Number of users of the partner.
    pub users: usize,
}

impl PartnerLine {
    pub(crate) fn new(partner: &Partner, users: usize) -> Self {
        Self {
            partner_id: partner.id,
            name: partner.name.clone(),
            kind: partner.kind.as_str(),
            created_timestamp: partner.created,
            disabled: partner.disabled,
            telemetry_duration_unit: partner
                .duration_unit
                .map_or("default", DurationUnit::as_str),
            tokens: partner.tokens.len(),
            users,
        }
    }
}

#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AddedPartner<'a> {
    /// Id of the partner.
    #[described(JsonType::Named("Id"))]
    pub partner_id: String,
    /// First access token. It is shown only in this response.
    pub access_token: &'a str,
}

#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TokenLine {
    /// Id used to revoke the token.
    pub token_id: String,
    /// Label given at creation; may be empty.
    pub label: String,
    /// Time at which the token was made.
    pub created_timestamp: UnixSeconds,
    /// Last use, to the minute. Absent if the token was never used. A use of the last minute before a crash may be missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_used_timestamp: Option<UnixSeconds>,
}

impl From<&TokenInfo> for TokenLine {
    fn from(token: &TokenInfo) -> Self {
        Self {
            token_id: token.handle.clone(),
            label: token.label.clone(),
            created_timestamp: token.created,
            last_used_timestamp: token.used,
        }
    }
}

#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AddedToken<'a> {
    /// Id used to revoke the token.
    pub token_id: String,
    /// The access token. It is shown only in this response.
    pub access_token: &'a str,
}
