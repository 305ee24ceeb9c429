//! Handlers of the rights of broadcasts: their explanation, overrides, defaults and rules.

use std::sync::Arc;

use crate::app::App;
use crate::domain::catalog::{Catalog, CatalogDiff, CatalogError, Edit, Mode};
use crate::domain::schedule::Schedule;
use crate::http::access::auth::OperatorAuth;
use crate::http::errors::api_error::{ApiError, ErrorCode};
use crate::http::offload::{bulk, cold};
use crate::http::request::context::Context;
use crate::http::response::reply::Reply;
use crate::http::routing::endpoint::admin::rights::{
    AddRuleRequest, BroadcastRightsRequest, RemoveRuleRequest, SetDefaultsRequest, SetRightsRequest,
};
use crate::http::wire::catalog::ImportReply;
use crate::http::wire::rights::{RuleLine, WhyRightsReply};
use crate::types::{BroadcastId, LivestreamId};

/// `GET /admin/v1/broadcasts/{broadcast}/why`: explains the effective rights of a broadcast.
///
/// # Errors
/// `BROADCAST_NOT_FOUND`.
pub(crate) async fn why(
    app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    request: BroadcastRightsRequest,
) -> Result<Reply, ApiError> {
    let (schedule, catalog) = (Arc::clone(&app.schedule), app.catalog.clone());
    let reply = cold(app, move || -> Result<_, ApiError> {
        let found = schedule.broadcast(&request.broadcast)?;
        let (livestream, broadcast) = found.ok_or_else(no_broadcast)?;
        let explained = catalog.snapshot().explain(&livestream, &broadcast);
        let explained = explained.ok_or_else(no_broadcast)?;
        WhyRightsReply::new(&broadcast, &explained).map_err(ApiError::internal)
    })
    .await?;
    Reply::json(&reply)
}

/// `PUT /admin/v1/broadcasts/{broadcast}/rights`: replaces the override of a broadcast.
///
/// # Errors
/// `BROADCAST_NOT_FOUND`; `IMPORT_INVALID` with every mistake in the body.
pub(crate) async fn set(
    app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    request: SetRightsRequest,
) -> Result<Reply, ApiError> {
    let livestream = livestream_of(app, &request.broadcast).ok_or_else(no_broadcast)?;
    let change = Edit::Override(request.broadcast, request.says);
    edit(app, change, Touched::Some(vec![livestream])).await
}

/// `DELETE /admin/v1/broadcasts/{broadcast}/rights`: removes the override of a broadcast, even if
/// the broadcast has left the schedule.
pub(crate) async fn clear(
    app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    request: BroadcastRightsRequest,
) -> Result<Reply, ApiError> {
    let livestream = livestream_of(app, &request.broadcast);
    let touched = Touched::Some(livestream.into_iter().collect());
    edit(app, Edit::Forget(request.broadcast), touched).await
}

/// `PUT /admin/v1/livestreams/{livestream}/rights`: changes the default rights of a livestream.
///
/// # Errors
/// `LIVESTREAM_NOT_FOUND`; `IMPORT_INVALID` with every mistake in the body.
pub(crate) async fn set_defaults(
    app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    request: SetDefaultsRequest,
) -> Result<Reply, ApiError> {
    let touched = Touched::Some(vec![request.livestream.clone()]);
    let change = Edit::Defaults(request.livestream, request.says);
    edit(app, change, touched).await
}

/// `GET /admin/v1/rules`: lists the rules in their order.
pub(crate) fn rules(app: &App, _cx: &Context, _auth: OperatorAuth) -> Result<Reply, ApiError> {
    let snapshot = app.catalog.snapshot();
    let lines = snapshot.rules().zip(1..);
    let lines: Result<Vec<_>, _> = lines.map(|(rule, at)| RuleLine::new(at, rule)).collect();
    Reply::json(&lines.map_err(ApiError::internal)?)
}

/// `POST /admin/v1/rules`: appends a rule. A rule that exists already is not added again and keeps
/// its position.
///
/// # Errors
/// `IMPORT_INVALID` with every mistake in the body.
pub(crate) async fn add_rule(
    app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    request: AddRuleRequest,
) -> Result<Reply, ApiError> {
    let named = request.rule.rules.iter();
    let named: Vec<_> = named
        .flat_map(|rule| rule.item.condition.livestreams.clone())
        .collect();
    let touched = match named.is_empty() {
        true => Touched::All,
        false => Touched::Some(named),
    };
    change(app, touched, move |catalog| {
        catalog.import(request.rule, Mode::Merge, false, &|_| false)
    })
    .await
}

/// `DELETE /admin/v1/rules/{rule}`: removes a rule.
///
/// # Errors
/// `RULE_NOT_FOUND`.
pub(crate) async fn remove_rule(
    app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    request: RemoveRuleRequest,
) -> Result<Reply, ApiError> {
    edit(app, Edit::DropRule(request.rule), Touched::All).await
}

/// The livestreams whose prepared schedule responses must be rebuilt.
enum Touched {
    All,
    Some(Vec<LivestreamId>),
}

async fn edit(app: &App, edit: Edit, touched: Touched) -> Result<Reply, ApiError> {
    change(app, touched, move |catalog| catalog.edit(edit)).await
}

async fn change(
    app: &App,
    touched: Touched,
    change: impl FnOnce(&Catalog) -> Result<CatalogDiff, CatalogError> + Send + 'static,
) -> Result<Reply, ApiError> {
    let (schedule, catalog) = (Arc::clone(&app.schedule), app.catalog.clone());
    let difference = bulk(app, move || -> Result<_, ApiError> {
        let difference = change(&catalog)?;
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

fn livestream_of(app: &App, broadcast: &BroadcastId) -> Option<LivestreamId> {
    let program = app.schedule.snapshot().program(broadcast)?;
    Some(program.livestream().clone())
}

fn no_broadcast() -> ApiError {
    let why = "the schedule has no such broadcast";
    ApiError::new(ErrorCode::BroadcastNotFound, why)
}
