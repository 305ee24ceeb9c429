//! Partners and operators.

use serde::Serialize;

use playgate_domain::operators::Operator;
use playgate_domain::partners::Partner;
use playgate_types::{DurationUnit, TokenInfo};

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
    #[must_use]
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

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OperatorLine {
    pub operator_id: String,
    pub name: String,
    pub role: &'static str,
    pub created_timestamp: i64,
}

impl From<&Operator> for OperatorLine {
    fn from(operator: &Operator) -> Self {
        Self {
            operator_id: operator.id.to_string(),
            name: operator.name.clone(),
            role: operator.role.as_str(),
            created_timestamp: operator.created.0,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AddedOperator<'a> {
    pub operator_id: String,
    pub token: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AddedOperatorToken<'a> {
    pub token_id: String,
    pub token: &'a str,
}
