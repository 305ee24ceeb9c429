//! Handlers of grants, and of the explanation of an entitlement decision.

pub(crate) mod answer;
pub(crate) mod request;

use std::sync::Arc;

use crate::operators::grants::answer::{ExplainEntitlementReply, GrantLine};
use crate::operators::grants::request::{
    ExplainEntitlementRequest, GrantRequest, RevokeGrantRequest,
};
use crate::operators::users::request::UserRequest;
use playgate_domain::playback::Viewer;
use playgate_formats::rights::rule_step;
use playgate_http::access::auth::OperatorAuth;
use playgate_http::errors::api_error::{ApiError, ErrorCode};
use playgate_http::offload::cold;
use playgate_http::request::context::Context;
use playgate_http::response::reply::Reply;
use playgate_http::routing::resolve;
use playgate_records::journal::{JournalFilter, JournalRecord};
use playgate_services::Services;
use playgate_types::{AssetId, UnixSeconds, UserId};

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
        .map(|grant| GrantLine::new(grant, &snapshot, cx.now))
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
    Reply::json(&GrantLine::new(
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
    Reply::json(&ExplainEntitlementReply::new(
        explained,
        limits,
        playability.as_ref(),
    ))
}

/// Returns the last decision about the asset in the journal that was made no later than the second `at`.
async fn past_decision(
    services: &Services,
    user: UserId,
    asset: AssetId,
    at: UnixSeconds,
) -> Result<Reply, ApiError> {
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
    Reply::json(&ExplainEntitlementReply::from(record))
}
