//! Grants, and the explanation of an entitlement decision.

use std::borrow::Cow;

use serde::Serialize;

use playgate_domain::catalog::{CatalogSnapshot, Offer, OfferKind};
use playgate_domain::decision::DecisionStep;
use playgate_domain::entitlement::{EntitlementExplanation, Grant};
use playgate_domain::playback::Playability;
use playgate_formats::decision_step::StepLine;
use playgate_http::errors::mapping::denial;
use playgate_records::journal::JournalRecord;
use playgate_types::UnixSeconds;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OfferReply {
    offer_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<&'static str>,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    purchased_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expiry: Option<i64>,
}

impl OfferReply {
    #[must_use]
    pub(crate) fn from_grant(grant: &Grant, snapshot: &CatalogSnapshot, now: UnixSeconds) -> Self {
        Self {
            offer_id: grant.offer.as_str().to_owned(),
            r#type: snapshot
                .offer(&grant.offer)
                .map(|offer| offer.kind.as_str()),
            state: state(grant, now),
            purchased_at: Some(grant.purchased_at.0),
            expiry: grant.expiry.map(|at| at.0),
        }
    }

    pub(crate) fn public_offers(
        snapshot: &CatalogSnapshot,
        now: UnixSeconds,
    ) -> impl Iterator<Item = Self> {
        // Every user has the default offers while they are on sale.
        let now_open = move |offer: &&std::sync::Arc<Offer>| {
            offer.kind == OfferKind::Default && offer.sale.contains(now)
        };
        snapshot.offers().filter(now_open).map(|offer| Self {
            offer_id: offer.id.as_str().to_owned(),
            r#type: Some(offer.kind.as_str()),
            state: "active",
            purchased_at: None,
            expiry: offer.sale.to.map(|at| at.0),
        })
    }
}

fn state(grant: &Grant, now: UnixSeconds) -> &'static str {
    if grant.is_active(now) {
        "active"
    } else if grant.revoked.is_some() {
        "revoked"
    } else {
        "expired"
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GrantLine {
    #[serde(flatten)]
    offer: OfferReply,
    #[serde(skip_serializing_if = "Option::is_none")]
    granted_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_by: Option<String>,
}

impl GrantLine {
    #[must_use]
    pub(crate) fn new(grant: &Grant, snapshot: &CatalogSnapshot, now: UnixSeconds) -> Self {
        let revoked = grant.revoked;
        Self {
            offer: OfferReply::from_grant(grant, snapshot, now),
            granted_by: grant.granted_by.map(|id| id.to_string()),
            revoked_at: revoked.map(|revoked| revoked.at.0),
            revoked_by: revoked
                .and_then(|revoked| revoked.by)
                .map(|id| id.to_string()),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExplainEntitlementReply {
    /// Whether the user gets an entitlement, possibly after entering the PIN.
    granted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<Cow<'static, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pin_needed: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    playable: Option<bool>,
    /// The request that was decided, for a past decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<i64>,
    steps: Vec<StepLine>,
}

impl ExplainEntitlementReply {
    #[must_use]
    pub(crate) fn new(
        explained: EntitlementExplanation,
        limits: Vec<DecisionStep>,
        playability: Option<&Playability>,
    ) -> Self {
        // Preflight decides this later, but operators who ask why a viewer cannot play want to see it here.
        let playback = playability.map(|found| StepLine {
            check: "playback".into(),
            subject: None,
            finding: found.describe(),
            passed: found.can_play(),
        });
        let code = explained.denied.map(|denied| denial(denied).as_str());
        let reason = code.and_then(|code| reason(code, &explained.steps));
        let allowed = limits.iter().all(|step| step.passed);
        let steps = explained
            .steps
            .into_iter()
            .chain(limits)
            .map(StepLine::from);
        Self {
            granted: explained.denied.is_none(),
            code: code.map(Cow::Borrowed),
            reason,
            pin_needed: explained.pin_needed,
            playable: playability.map(|found| allowed && found.can_play()),
            request_id: None,
            at: None,
            steps: steps.chain(playback).collect(),
        }
    }
}

/// What decided a denial, and what would have to be different.
fn reason(code: &str, steps: &[DecisionStep]) -> Option<String> {
    let found = |check: &str| {
        steps
            .iter()
            .rev()
            .find(|step| step.check == check && !step.passed)
    };
    let offers: Vec<&str> = steps
        .iter()
        .filter(|step| step.check == "offer")
        .filter_map(|step| step.subject.as_deref())
        .collect();
    match code {
        "NOT_ENTITLED" if !offers.is_empty() => Some(format!(
            "the user has no offer that includes the asset. To allow it, grant one of: {}",
            offers.join(", ")
        )),
        "GEO_BLOCKED" if !offers.is_empty() => {
            let country = steps.iter().find(|step| step.check == "country");
            let country = country.map_or("unknown", |step| step.finding.as_str());
            Some(format!(
                "no offer that the user has and that includes the asset is valid in the viewer's country ({country}). \
                 To allow it, add the country to one of: {}; or grant an offer that is valid there",
                offers.join(", ")
            ))
        }
        "NO_LIVE_RIGHTS" | "NOT_AVAILABLE" if found("rule").is_some() => {
            found("rule").map(|step| step.finding.clone())
        }
        _ => {
            let decided = steps.iter().rev().find(|step| !step.passed);
            decided.map(|step| step.finding.clone())
        }
    }
}

impl From<JournalRecord> for ExplainEntitlementReply {
    fn from(record: JournalRecord) -> Self {
        let reason = record.code.as_deref();
        let reason = reason.and_then(|code| self::reason(code, &record.steps));
        Self {
            granted: !record.is_refusal(),
            reason,
            code: record.code.map(Cow::Owned),
            pin_needed: None,
            playable: None,
            request_id: Some(record.id),
            at: Some(record.at_millis.div_euclid(1_000)),
            steps: record.steps.into_iter().map(StepLine::from).collect(),
        }
    }
}
