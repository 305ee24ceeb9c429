//! Partners and operators.

use serde::Serialize;

use crate::domain::operators::Operator;
use crate::domain::partners::Partner;
use crate::types::{DurationUnit, TokenInfo};

/// A line of the list of partners.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PartnerLine {
    /// The id.
    pub partner_id: String,
    /// The name.
    pub name: String,
    /// When it was made.
    pub created_timestamp: i64,
    /// Whether its tokens are refused.
    pub disabled: bool,
    /// `ms` or `s`, or `default` where the configured unit counts.
    pub telemetry_duration_unit: &'static str,
    /// How many tokens it has.
    pub tokens: usize,
    /// How many users it has.
    pub users: usize,
}

impl PartnerLine {
    /// A partner with so many users.
    #[must_use]
    pub fn new(partner: &Partner, users: usize) -> Self {
        Self {
            partner_id: partner.id.to_string(),
            name: partner.name.clone(),
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

/// The answer to adding a partner: the token is told this once.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AddedPartner<'a> {
    /// The id.
    pub partner_id: String,
    /// The access token.
    pub access_token: &'a str,
}

/// A line of the list of tokens of a partner or an operator.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenLine {
    /// The handle by which it is revoked.
    pub token_id: String,
    /// When it was made.
    pub created_timestamp: i64,
}

impl From<&TokenInfo> for TokenLine {
    fn from(token: &TokenInfo) -> Self {
        Self {
            token_id: token.handle.clone(),
            created_timestamp: token.created.0,
        }
    }
}

/// The answer to adding a partner's token: it is told this once.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AddedToken<'a> {
    /// The handle by which it is revoked.
    pub token_id: String,
    /// The access token.
    pub access_token: &'a str,
}

/// A line of the list of operators.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OperatorLine {
    /// The id.
    pub operator_id: String,
    /// The name.
    pub name: String,
    /// What they may do.
    pub role: &'static str,
    /// When it was made.
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

/// The answer to adding an operator: the token is told this once.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AddedOperator<'a> {
    /// The id.
    pub operator_id: String,
    /// The token.
    pub token: &'a str,
}

/// The answer to adding an operator's token: it is told this once.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AddedOperatorToken<'a> {
    /// The handle by which it is revoked.
    pub token_id: String,
    /// The token.
    pub token: &'a str,
}
