//! Grants, and the explanation of an entitlement decision.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;

use crate::operators::asset_names::AssetNames;
use crate::operators::users::request::UserRequest;
use crate::partner::offers::OfferBody;
use playgate_domain::catalog::CatalogSnapshot;
use playgate_domain::decision::DecisionStep;
use playgate_domain::entitlement::{EntitlementExplanation, Grant};
use playgate_domain::playback::{Playability, Viewer};
use playgate_formats::decision_step::StepBody;
use playgate_formats::rights::rule_step;
use playgate_http::errors::mapping::denial;
use playgate_http::offload::cold;
use playgate_http::routing::resolve;
use playgate_http::{
    ApiError, CombineResults, Context, ErrorCode, Input, OperatorAuth, ParseRequest, Payload,
    Reply, UserIdOrEmail,
};
use playgate_records::journal::{JournalFilter, JournalRecord};
use playgate_services::Services;
use playgate_types::{
    AssetId, Country, Described, DeviceId, JsonType, LiveOffset, OfferId, OperatorId, UnixSeconds,
    UserId,
};

crate::openapi::words::words! { Explained, GrantBody => r##"
[requests.NewGrant]
expiry = "integer?: Expiry time in Unix seconds, in the future. Default: the duration of the offer."

[operations.admin_grants]
summary = "List a user's grants"
text = "Oldest first, expired and revoked grants included."
query.partner = "Partner?: Partner of the user."
returns."200" = "[Grant]: The grants."
errors = ["USER_NOT_FOUND", "PARTNER_NOT_FOUND"]

[operations.admin_grant]
summary = "Grant an offer to a user"
text = "Granting an offer that the user holds renews it. Only an explicit `expiry` can shorten it."
query.partner = "Partner?: Partner of the user."
send = "NewGrant?: Expiry of the grant."
returns."200" = "Grant: The grant."
errors = ["USER_NOT_FOUND", "PARTNER_NOT_FOUND", "OFFER_NOT_FOUND"]

[operations.admin_revoke_grant]
summary = "Revoke a grant"
text = "The grant stays in the history. Playback that depends on it ends."
query.partner = "Partner?: Partner of the user."
returns."204" = { text = "The grant was revoked." }
errors = ["USER_NOT_FOUND", "PARTNER_NOT_FOUND", "GRANT_NOT_FOUND"]

[operations.admin_why]
summary = "Explain whether a user may play an asset"
text = "Returns the decision that the user would get now, check by check, with the limits of devices and streams, and whether the asset is playable at all. With `at`: the last decision about the user and the asset up to that second, as the request journal has it."
query.partner = "Partner?: Partner of the user."
query.offset = "LiveOffset?: For a livestream: offset from the live point."
query.country = "Country?: Evaluates the decision for this country."
query.device = "string?: Device id. Without one, a device that is not registered is assumed."
query.at = "Time?: Explains a past decision."
returns."200" = "Explained: The decision."
errors = ["USER_NOT_FOUND", "PARTNER_NOT_FOUND", "REQUEST_NOT_FOUND"]
"## }

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GrantRequest {
    pub user: UserIdOrEmail,
    pub offer: OfferId,
    /// If absent, the offer determines the expiry.
    pub expiry: Option<UnixSeconds>,
}

impl ParseRequest for GrantRequest {
    fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        let (user, offer, expiry) = (
            UserIdOrEmail::parse(input),
            input.parsed("offer", OfferId::parse),
            body.integer("expiry"),
        )
            .combine()?;
        Ok(Self {
            user,
            offer,
            expiry: expiry.map(UnixSeconds),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RevokeGrantRequest {
    pub user: UserIdOrEmail,
    pub offer: OfferId,
}

impl ParseRequest for RevokeGrantRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            user: UserIdOrEmail::parse(input)?,
            offer: input.parsed("offer", OfferId::parse)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExplainEntitlementRequest {
    pub user: UserIdOrEmail,
    pub asset: AssetId,
    pub offset: LiveOffset,
    pub country: Option<Country>,
    pub device: Option<DeviceId>,
    /// Explains a past decision from the journal instead of one now.
    pub at: Option<UnixSeconds>,
}

impl ParseRequest for ExplainEntitlementRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let at = input.number("at", 12, "must be a time in Unix seconds");
        let (user, asset, offset, country, device, at) = (
            UserIdOrEmail::parse(input),
            input.parsed("asset", AssetId::parse),
            input.query.parsed("offset", LiveOffset::parse),
            input.query.parsed("country", Country::parse),
            input.query.parsed("device", DeviceId::parse),
            at,
        )
            .combine()?;
        Ok(Self {
            user,
            asset,
            offset: offset.unwrap_or(LiveOffset::LIVE),
            country,
            device,
            at: at.map(UnixSeconds),
        })
    }
}

pub(crate) async fn grants(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: UserRequest,
) -> Result<Reply, ApiError> {
    let user = resolve::user(services, &request.user).await?;
    let snapshot = services.catalog.snapshot();
    let grants = services.grants.for_user(&user.id);
    let lines: Vec<_> = grants
        .iter()
        .map(|grant| GrantBody::new(grant, &snapshot, cx.now))
        .collect();
    Reply::json(&lines)
}

pub(crate) async fn grant(
    services: &Services,
    cx: &Context,
    auth: OperatorAuth,
    request: GrantRequest,
) -> Result<Reply, ApiError> {
    let user = resolve::user(services, &request.user).await?;
    let by = auth.operator();
    let grant = services
        .grants
        .grant(user.id, request.offer, request.expiry, by, cx.now)
        .await?;
    Reply::json(&GrantBody::new(
        &grant,
        &services.catalog.snapshot(),
        cx.now,
    ))
}

pub(crate) async fn revoke_grant(
    services: &Services,
    cx: &Context,
    auth: OperatorAuth,
    request: RevokeGrantRequest,
) -> Result<Reply, ApiError> {
    let user = resolve::user(services, &request.user).await?;
    let by = auth.operator();
    services
        .grants
        .revoke(user.id, request.offer, by, cx.now)
        .await?;
    let settings = services.entitlement.settings();
    // Without a reported country: the operator's country is not the user's.
    let viewer = Viewer::new(&user, settings.viewer_country(&user, None));
    // Runs after the grant is gone, because another offer may still cover what is playing.
    services.playback.void_lost(&viewer, cx.now).await?;
    Ok(Reply::no_content())
}

pub(crate) async fn why(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: ExplainEntitlementRequest,
) -> Result<Reply, ApiError> {
    let user = resolve::user(services, &request.user).await?;
    if let Some(at) = request.at {
        return past_decision(services, user.id, request.asset, at).await;
    }
    let settings = services.entitlement.settings();
    let viewer = Viewer::new(&user, settings.viewer_country(&user, request.country));
    let mut explained = services.entitlement.explain(
        &user,
        &request.asset,
        request.offset,
        request.country,
        cx.now,
    );
    let (playback, asset, now) = (services.playback.clone(), request.asset.clone(), cx.now);
    let livestream = explained.plays_live.take();
    let limits = cold(services, move || {
        let (livestream, device) = (livestream.as_ref(), request.device.as_ref());
        playback.explain_start(&viewer, &asset, livestream, device, now)
    })
    .await?;
    if let Some(refusal) = explained.refused_by.take() {
        let (schedule, catalog) = (Arc::clone(&services.schedule), services.catalog.snapshot());
        let step = cold(services, move || {
            Ok::<_, ApiError>(rule_step(&schedule, &catalog, &refusal))
        });
        explained.steps.extend(step.await?);
    }
    let playability = services.playback.playability(&request.asset);
    let names = asset_names(services, &request.asset, cx.now);
    Reply::json(&Explained::new(
        explained,
        limits,
        playability.as_ref(),
        names,
    ))
}

/// Returns the last decision about the asset in the journal that was made no later than the second `at`.
async fn past_decision(
    services: &Services,
    user: UserId,
    asset: AssetId,
    at: UnixSeconds,
) -> Result<Reply, ApiError> {
    let names = asset_names(services, &asset, at);
    let filter = JournalFilter {
        user: Some(user),
        asset: Some(asset),
        to: Some(at + 1),
        ..JournalFilter::default()
    };
    let journal = services.journal.clone();
    let found = cold(services, move || {
        let decided = |found: &Result<JournalRecord, _>| {
            found
                .as_ref()
                // An error ends the search, too: a decision behind a damaged record may not be the last one.
                .map_or(true, |record| !record.steps.is_empty())
        };
        journal.records(filter).find(decided).transpose()
    })
    .await?;
    let record = found.ok_or_else(|| {
        ApiError::new(
            ErrorCode::RequestNotFound,
            "the journal has no decision about this user and asset up to that time",
        )
    })?;
    Reply::json(&Explained::recorded(record, names))
}

fn asset_names(services: &Services, asset: &AssetId, at: UnixSeconds) -> AssetNames {
    AssetNames::new((&services.catalog, &*services.schedule), asset, None, at)
}

#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GrantBody {
    #[serde(flatten)]
    offer: OfferBody,
    /// Id of the operator who granted the offer. Absent for the machine's administrator.
    #[serde(skip_serializing_if = "Option::is_none")]
    granted_by: Option<OperatorId>,
    /// Time of revocation. Absent if the grant was not revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_at: Option<UnixSeconds>,
    /// Id of the operator who revoked the grant. Absent if not revoked, and for the machine's administrator.
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_by: Option<OperatorId>,
}

impl GrantBody {
    pub(crate) fn new(grant: &Grant, snapshot: &CatalogSnapshot, now: UnixSeconds) -> Self {
        let revoked = grant.revoked;
        Self {
            offer: OfferBody::from_grant(grant, snapshot, now),
            granted_by: grant.granted_by,
            revoked_at: revoked.map(|revoked| revoked.at),
            revoked_by: revoked.and_then(|revoked| revoked.by),
        }
    }
}

#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Explained {
    /// Whether the user gets an entitlement, after the PIN if it is needed.
    granted: bool,
    /// Error code of the denial. Absent if granted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[described(JsonType::Named("ErrorWord"))]
    code: Option<Cow<'static, str>>,
    /// What decided the denial, and what would have to be different. Absent if granted.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Whether the PIN is required. Absent if playback is denied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pin_needed: Option<bool>,
    /// Whether a player could play the asset: it has a playlist and, if encrypted, a license server, and the limits of
    /// devices and streams allow a start. Absent if the asset does not exist, and for a past decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    playable: Option<bool>,
    /// Id of the request that was decided. Absent if no past decision was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    /// Route of that request, as the request journal names it. Absent if no past decision was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    route: Option<String>,
    /// Time of that request. Absent if no past decision was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<UnixSeconds>,
    /// All checks, in the order in which they were made.
    steps: Vec<StepBody>,
    #[serde(flatten)]
    names: AssetNames,
}

impl Explained {
    pub(crate) fn new(
        explained: EntitlementExplanation,
        limits: Vec<DecisionStep>,
        playability: Option<&Playability>,
        names: AssetNames,
    ) -> Self {
        // Preflight decides this later, but operators who ask why a viewer cannot play want to see it here.
        let playback = playability.map(|found| StepBody {
            check: "playback".into(),
            subject: None,
            finding: found.describe().into(),
            passed: found.can_play(),
        });
        let code = explained.denied.map(|denied| denial(denied).as_str());
        let reason = code.and_then(|code| reason(code, &explained.steps));
        let allowed = limits.iter().all(|step| step.passed);
        let steps = explained
            .steps
            .into_iter()
            .chain(limits)
            .map(StepBody::from);
        Self {
            granted: explained.denied.is_none(),
            code: code.map(Cow::Borrowed),
            reason,
            pin_needed: explained.pin_needed,
            playable: playability.map(|found| allowed && found.can_play()),
            request_id: None,
            route: None,
            at: None,
            steps: steps.chain(playback).collect(),
            names,
        }
    }

    /// The decision of a request in the journal.
    fn recorded(record: JournalRecord, names: AssetNames) -> Self {
        let reason = record.code.as_deref();
        let reason = reason.and_then(|code| self::reason(code, &record.steps));
        Self {
            granted: !record.is_refusal(),
            reason,
            code: record.code,
            pin_needed: None,
            playable: None,
            request_id: Some(record.id),
            route: Some(record.route.into_owned()),
            at: Some(UnixSeconds(record.at_millis.div_euclid(1_000))),
            steps: record.steps.into_iter().map(StepBody::from).collect(),
            names,
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
            let country = country.map_or("unknown", |step| &step.finding);
            Some(format!(
                "no offer that the user has and that includes the asset is valid in the viewer's country ({country}). \
                 To allow it, add the country to one of: {}; or grant an offer that is valid there",
                offers.join(", ")
            ))
        }
        "NO_LIVE_RIGHTS" | "NOT_AVAILABLE" if found("rule").is_some() => {
            found("rule").map(|step| step.finding.to_string())
        }
        _ => {
            let decided = steps.iter().rev().find(|step| !step.passed);
            decided.map(|step| step.finding.to_string())
        }
    }
}
