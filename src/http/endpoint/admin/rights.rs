//! Requests about the rights of broadcasts. Their bodies have the names of the catalogue file, so that
//! an operator learns one set of them.

use bytes::Bytes;

use super::super::{Input, Payload};
use super::known;
use crate::catalog_file;
use crate::domain::catalog::{CatalogError, CatalogImport, Effects, Problem};
use crate::http::error::{ApiError, ErrorCode};
use crate::types::{BroadcastId, LivestreamId};

/// One broadcast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BroadcastRightsRequest {
    /// The broadcast.
    pub broadcast: BroadcastId,
}

impl BroadcastRightsRequest {
    pub(super) fn parse(input: &Input<'_>) -> Result<Self, ApiError> {
        let text = input.text("broadcast")?;
        Ok(Self {
            broadcast: known(BroadcastId::parse(&text), ErrorCode::BroadcastNotFound)?,
        })
    }
}

/// PUT what is said of one broadcast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetRightsRequest {
    /// The broadcast.
    pub broadcast: BroadcastId,
    /// What is said, in place of what was.
    pub says: Effects,
}

impl SetRightsRequest {
    pub(super) fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let BroadcastRightsRequest { broadcast } = BroadcastRightsRequest::parse(input)?;
        Ok(Self {
            broadcast,
            says: says(&payload.whole()?)?,
        })
    }
}

/// PUT the defaults of a livestream: a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetDefaultsRequest {
    /// The livestream.
    pub livestream: LivestreamId,
    /// What its defaults become; what is absent stays.
    pub says: Effects,
}

impl SetDefaultsRequest {
    pub(super) fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let text = input.text("livestream")?;
        let livestream = known(LivestreamId::parse(&text), ErrorCode::LivestreamNotFound)?;
        let says = says(&payload.whole()?)?;
        if says.catchup.is_some() {
            let why = "is not among a livestream's defaults; give `catchup_days`, 0 for none";
            return Err(ApiError::field("catchup", why));
        }
        Ok(Self { livestream, says })
    }
}

/// POST a rule. It comes after those there are, and so has the last word among them.
pub struct AddRuleRequest {
    /// The rule, as a file brings it.
    pub rule: CatalogImport,
}

impl AddRuleRequest {
    pub(super) fn parse(payload: Payload) -> Result<Self, ApiError> {
        let body = payload.whole()?;
        let rule = catalog_file::parse_rule(text(&body)?);
        Ok(Self { rule })
    }
}

/// DELETE a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoveRuleRequest {
    /// Its number; the first is 1.
    pub rule: usize,
}

impl RemoveRuleRequest {
    pub(super) fn parse(input: &Input<'_>) -> Result<Self, ApiError> {
        Ok(Self {
            rule: known(input.text("rule")?.parse(), ErrorCode::RuleNotFound)?,
        })
    }
}

fn text(body: &Bytes) -> Result<&str, ApiError> {
    std::str::from_utf8(body).map_err(|_| ApiError::malformed("the body is not UTF-8"))
}

fn says(body: &Bytes) -> Result<Effects, ApiError> {
    let mistakes = |problems: Vec<Problem>| CatalogError::Invalid(problems).into();
    catalog_file::parse_rights(text(body)?).map_err(mistakes)
}
