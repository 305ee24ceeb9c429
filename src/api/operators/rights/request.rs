//! Requests about the rights of broadcasts.
//!
//! Bodies use the names of the catalogue file, so that operators learn only one set of names.

use bytes::Bytes;

use playgate_decode::Mistake;
use playgate_domain::catalog::{CatalogError, CatalogImport, Effects};
use playgate_formats::catalog_file;
use playgate_http::errors::api_error::{ApiError, ErrorCode};
use playgate_http::request::payload::Payload;
use playgate_http::routing::endpoint::{Input, ParseRequest, digits};
use playgate_http::routing::resolve::known;
use playgate_types::{BroadcastId, LivestreamId};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BroadcastRightsRequest {
    pub broadcast: BroadcastId,
}

impl ParseRequest for BroadcastRightsRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            broadcast: broadcast(input)?,
        })
    }
}

fn broadcast(input: &Input<'_>) -> Result<BroadcastId, ApiError> {
    let text = input.text("broadcast")?;
    known(BroadcastId::parse(&text), ErrorCode::BroadcastNotFound)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SetRightsRequest {
    pub broadcast: BroadcastId,
    pub effects: Effects,
}

impl ParseRequest for SetRightsRequest {
    fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            broadcast: broadcast(input)?,
            effects: effects(&payload.whole()?)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SetDefaultsRequest {
    pub livestream: LivestreamId,
    pub effects: Effects,
}

impl ParseRequest for SetDefaultsRequest {
    fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let text = input.text("livestream")?;
        let livestream = known(LivestreamId::parse(&text), ErrorCode::LivestreamNotFound)?;
        let effects = effects(&payload.whole()?)?;
        if effects.catchup.is_some() {
            let why = "is not among a livestream's defaults; give `catchup_days`, 0 for none";
            return Err(ApiError::field("catchup", why));
        }
        Ok(Self {
            livestream,
            effects,
        })
    }
}

/// The new rule comes last and therefore takes precedence over the others.
pub(crate) struct AddRuleRequest {
    pub rule: CatalogImport,
}

impl ParseRequest for AddRuleRequest {
    fn parse(_input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let body = payload.whole()?;
        let rule = catalog_file::parse_rule(text(&body)?);
        Ok(Self { rule })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RemoveRuleRequest {
    pub rule: usize,
    pub text: Option<String>,
}

impl ParseRequest for RemoveRuleRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            rule: known(
                digits(&input.text("rule")?).ok_or(()),
                ErrorCode::RuleNotFound,
            )?,
            text: input.query.parsed("text", |text| Ok(text.to_owned()))?,
        })
    }
}

fn text(body: &Bytes) -> Result<&str, ApiError> {
    std::str::from_utf8(body).map_err(|_| ApiError::malformed("the body is not UTF-8"))
}

fn effects(body: &Bytes) -> Result<Effects, ApiError> {
    let mistakes = |problems: Vec<Mistake>| CatalogError::Invalid(problems).into();
    catalog_file::parse_rights(text(body)?).map_err(mistakes)
}
