//! Handlers of the rights of broadcasts: their explanation, overrides, defaults and rules.

pub(crate) mod request;

use std::sync::Arc;

use crate::operators::rights::request::{
    AddRuleRequest, BroadcastRightsRequest, RemoveRuleRequest, SetDefaultsRequest, SetRightsRequest,
};
use playgate_domain::catalog::{Catalog, CatalogDiff, CatalogEdit, CatalogError, Mode};
use playgate_domain::schedule::Schedule;
use playgate_domain::schedule::lost_overrides::LostOverride;
use playgate_formats::catalog_report::ImportReply;
use playgate_formats::rights::{ExplainRightsReply, RuleLine};
use playgate_http::access::auth::OperatorAuth;
use playgate_http::errors::api_error::{ApiError, ErrorCode};
use playgate_http::offload::{bulk, cold};
use playgate_http::request::context::Context;
use playgate_http::response::reply::Reply;
use playgate_services::Services;
use playgate_types::{BroadcastId, LivestreamId};

pub(crate) async fn why(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: BroadcastRightsRequest,
) -> Result<Reply, ApiError> {
    let (schedule, catalog) = (Arc::clone(&services.schedule), services.catalog.clone());
    let reply = cold(services, move || -> Result<_, ApiError> {
        let found = schedule.broadcast(&request.broadcast)?;
        let lost = || match schedule.lost_override(&request.broadcast) {
            Some(lost) => lost_broadcast(&request.broadcast, &lost),
            None => no_broadcast(),
        };
        let (livestream, broadcast) = found.ok_or_else(lost)?;
        let explained = catalog.snapshot().explain(&livestream, &broadcast);
        let explained = explained.ok_or_else(no_broadcast)?;
        ExplainRightsReply::new(&broadcast, &explained).map_err(ApiError::internal)
    })
    .await?;
    Reply::json(&reply)
}

pub(crate) async fn set(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: SetRightsRequest,
) -> Result<Reply, ApiError> {
    let livestream = livestream_of(services, &request.broadcast).ok_or_else(no_broadcast)?;
    let change = CatalogEdit::Override(request.broadcast, request.effects);
    edit(services, change, Touched::Some(vec![livestream])).await
}

pub(crate) async fn clear(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: BroadcastRightsRequest,
) -> Result<Reply, ApiError> {
    // The override of a broadcast that has left the schedule is removed, too: the broadcast may come back.
    let livestream = livestream_of(services, &request.broadcast);
    let touched = Touched::Some(livestream.into_iter().collect());
    edit(services, CatalogEdit::Forget(request.broadcast), touched).await
}

pub(crate) async fn set_defaults(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: SetDefaultsRequest,
) -> Result<Reply, ApiError> {
    let touched = Touched::Some(vec![request.livestream.clone()]);
    let change = CatalogEdit::Defaults(request.livestream, request.effects);
    edit(services, change, touched).await
}

pub(crate) fn rules(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
) -> Result<Reply, ApiError> {
    let snapshot = services.catalog.snapshot();
    let lines = snapshot.rules().zip(1..);
    let lines: Result<Vec<_>, _> = lines.map(|(rule, at)| RuleLine::new(at, rule)).collect();
    Reply::json(&lines.map_err(ApiError::internal)?)
}

pub(crate) async fn add_rule(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: AddRuleRequest,
) -> Result<Reply, ApiError> {
    let named = request.rule.rules.iter();
    let named: Vec<_> = named
        .flat_map(|rule| rule.item.condition.livestreams.clone())
        .collect();
    let touched = match named.is_empty() {
        // A rule that names no livestream applies to all of them.
        true => Touched::All,
        false => Touched::Some(named),
    };
    change(services, touched, move |catalog| {
        catalog.import(request.rule, Mode::Merge, false, &|_| false)
    })
    .await
}

pub(crate) async fn remove_rule(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: RemoveRuleRequest,
) -> Result<Reply, ApiError> {
    // The rule is known only by its number, so every livestream may be affected.
    let change = CatalogEdit::DropRule {
        number: request.rule,
        text: request.text,
    };
    edit(services, change, Touched::All).await
}

/// The livestreams whose prepared schedule responses must be rebuilt.
enum Touched {
    All,
    Some(Vec<LivestreamId>),
}

async fn edit(services: &Services, edit: CatalogEdit, touched: Touched) -> Result<Reply, ApiError> {
    change(services, touched, move |catalog| catalog.edit(edit)).await
}

async fn change(
    services: &Services,
    touched: Touched,
    change: impl FnOnce(&Catalog) -> Result<CatalogDiff, CatalogError> + Send + 'static,
) -> Result<Reply, ApiError> {
    let (schedule, catalog) = (Arc::clone(&services.schedule), services.catalog.clone());
    let difference = bulk(services, move || -> Result<_, ApiError> {
        let difference = change(&catalog)?;
        // Without a change, the prepared responses and the tags that clients hold stay valid.
        if !difference.changes.is_empty() {
            refresh(&schedule, &touched)?;
        }
        Ok(difference)
    })
    .await?;
    Reply::json(&ImportReply::new(difference.into(), false))
}

fn refresh(schedule: &Schedule, touched: &Touched) -> Result<(), ApiError> {
    match touched {
        Touched::All => schedule.refresh()?,
        Touched::Some(livestreams) => schedule.refresh_some(livestreams)?,
    }
    Ok(())
}

fn livestream_of(services: &Services, broadcast: &BroadcastId) -> Option<LivestreamId> {
    let program = services.schedule.snapshot().program(broadcast)?;
    Some(program.livestream().clone())
}

fn lost_broadcast(id: &BroadcastId, lost: &LostOverride) -> ApiError {
    let why = format!(
        "an import removed this broadcast, “{}” on {}, {}; its rights apply to nothing. Set those of the broadcast that \
         replaced it, or remove them with `playgate rights clear {id}`",
        lost.title,
        lost.livestream,
        lost.start.in_utc()
    );
    ApiError::new(ErrorCode::BroadcastNotFound, why)
}

fn no_broadcast() -> ApiError {
    let why = "the schedule has no such broadcast";
    ApiError::new(ErrorCode::BroadcastNotFound, why)
}
