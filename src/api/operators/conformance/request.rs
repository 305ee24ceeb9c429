//! The request for a conformance report.

use std::collections::BTreeMap;

use crate::operators::requests::request::RecordPosition;
use playgate_domain::conformance::Profile;
use playgate_http::errors::api_error::{ApiError, CombineResults};
use playgate_http::request::payload::Payload;
use playgate_http::routing::endpoint::{Input, ParseRequest};
use playgate_http::routing::resolve::PartnerIdOrName;
use playgate_types::{Malformed, SessionId, UnixSeconds};

pub(crate) struct ConformanceRequest {
    pub partner: PartnerIdOrName,
    pub session: Option<SessionId>,
    pub from: Option<UnixSeconds>,
    pub to: Option<UnixSeconds>,
    pub after: Option<RecordPosition>,
    /// Waived rules.
    pub profile: Profile,
}

/// Parses a JSON object of rule ids and reasons. It comes in the query, because a GET request has no body.
fn waived(text: &str) -> Result<BTreeMap<String, String>, Malformed> {
    serde_json::from_str(text).map_err(|_| {
        Malformed("must be a JSON object of rule ids and the reasons for which they are waived")
    })
}

impl ParseRequest for ConformanceRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let (session, (from, to), after, waived) = (
            input.query.parsed("session", SessionId::parse),
            input.time_range(),
            input.query.parsed("after", RecordPosition::parse),
            input.query.parsed("waived", waived),
        )
            .combine()?;
        let profile = Profile::new(waived.unwrap_or_default())
            .map_err(|error| ApiError::field("waived", error.to_string()))?;
        Ok(Self {
            partner: PartnerIdOrName::read(&input.text("partner")?),
            session,
            from,
            to,
            after,
            profile,
        })
    }
}
