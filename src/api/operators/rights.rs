//! The rights of broadcasts: their explanation, overrides, defaults and rules.

use std::sync::Arc;

use bytes::Bytes;

use playgate_decode::Mistake;
use playgate_domain::catalog::{
    Catalog, CatalogDiff, CatalogEdit, CatalogError, CatalogImport, Effects,
};
use playgate_domain::schedule::Schedule;
use playgate_domain::schedule::lost_overrides::LostOverride;
use playgate_formats::catalog_file;
use playgate_formats::catalog_report::CatalogImportBody;
use playgate_formats::rights::{RightsExplained, RuleLine};
use playgate_http::offload::{bulk, cold};
use playgate_http::routing::endpoint::digits;
use playgate_http::routing::resolve::known;
use playgate_http::{
    ApiError, Context, ErrorCode, Input, OperatorAuth, ParseRequest, Payload, Reply,
};
use playgate_services::Services;
use playgate_types::{BroadcastId, LivestreamId};

crate::openapi::words::words! { RightsExplained, RuleLine => r##"
[operations.admin_why_rights]
summary = "Explain the rights of a broadcast"
returns."200" = "RightsExplained: All layers and the effective rights."
errors = ["BROADCAST_NOT_FOUND"]

[operations.admin_set_rights]
summary = "Override the rights of a broadcast"
text = "Replaces the existing override of this broadcast."
send = "Rights: The override."
returns."200" = "CatalogImport: The changes."
errors = ["BROADCAST_NOT_FOUND", "IMPORT_INVALID"]

[operations.admin_clear_rights]
summary = "Remove the override of a broadcast"
text = "Also works for a broadcast that has left the schedule."
returns."200" = "CatalogImport: The changes."
errors = ["BROADCAST_NOT_FOUND"]

[operations.admin_set_defaults]
summary = "Change the default rights of a livestream"
text = "Absent members stay as they are."
send = "Rights: The changes."
returns."200" = "CatalogImport: The changes."
errors = ["LIVESTREAM_NOT_FOUND", "IMPORT_INVALID"]

[operations.admin_rules]
summary = "List rules"
text = "In their order. Later rules override earlier ones."
returns."200" = "[RuleLine]: The rules."

[operations.admin_add_rule]
summary = "Add a rule"
text = "Appends the rule to the list. A rule that exists already keeps its place and is not added again. A rule without a condition that takes a right away is held: 409 `IMPORT_HELD` with the report in `details`, since every broadcast would lose the right."
query.accept = "Flag?: Adds the rule even if it would be held."
send = "Rule: The rule."
returns."200" = "CatalogImport: The changes."
errors = ["IMPORT_INVALID", "IMPORT_HELD"]

[operations.admin_remove_rule]
summary = "Remove a rule"
text = "With `text`, a rule that meanwhile has another number is not removed, which is `RULE_NOT_FOUND`."
query.text = "string?: The `text` that the rule must have."
returns."200" = "CatalogImport: The changes."
errors = ["RULE_NOT_FOUND"]
"## }

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
    /// Adds a rule that takes rights from every broadcast, too.
    pub accept: bool,
}

impl ParseRequest for AddRuleRequest {
    fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let accept = input.query.flag("accept")?;
        let body = payload.whole()?;
        let rule = catalog_file::parse_rule(text(&body)?);
        Ok(Self { rule, accept })
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
        RightsExplained::new(&broadcast, &explained).map_err(ApiError::internal)
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
        catalog.add_rules(request.rule, request.accept)
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
    Reply::json(&CatalogImportBody::new(difference.into(), false))
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
         replaced it, or remove them with `playgate rights remove {id}`",
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
