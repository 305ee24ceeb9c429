//! Requests about the faults of lab partners.

use std::time::Duration;

use crate::operators::faults::targets::{self, Carried};
use playgate_domain::lab::{CutAt, FaultAction, FaultId, LicenseFault, PlaylistFault};
use playgate_http::{
    ApiError, CombineResults, ErrorCode, Input, Object, ParseRequest, PartnerIdOrName, Payload,
    RouteFacts, UserIdOrEmail,
};
use playgate_types::{Email, Malformed, SessionId, UserId, parse_span};

/// Longest delay. Clients and proxies time out before it ends.
const DELAY_MAX: Duration = Duration::from_secs(120);

const COUNT_MAX: i64 = 1_000_000_000;

pub(crate) struct AddFaultRequest {
    pub partner: PartnerIdOrName,
    pub route: String,
    pub labels: Vec<&'static str>,
    pub user: Option<UserIdOrEmail>,
    pub asset: Option<String>,
    pub device: Option<String>,
    pub session: Option<SessionId>,
    pub after: u64,
    pub times: Option<u64>,
    pub probability: f64,
    pub seed: u64,
    pub action: FaultAction,
    pub lifetime: Option<Duration>,
}

impl ParseRequest for AddFaultRequest {
    fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        // A misspelt member would otherwise silently widen the fault.
        body.only(&[
            "route",
            "match",
            "after",
            "times",
            "probability",
            "seed",
            "do",
            "until",
        ])?;
        let partner = PartnerIdOrName::read(&input.text("partner")?);
        let name = body.required_text("route")?;
        let known = input.partner_routes;
        let routes = targets::routes(known, name);
        // A fault on a route that does not exist would never happen, and a test would pass for nothing.
        if routes.is_empty() {
            return Err(unknown_route(&body, known, name));
        }
        let (action, matching) = (action(&body, &routes), matching(&body, &partner, &routes));
        let (action, matching, after, times, probability, seed, lifetime) = (
            action,
            matching,
            count(&body, "after", 0),
            count(&body, "times", 1),
            probability(&body),
            count(&body, "seed", 0),
            body.parsed("until", parse_span),
        )
            .combine()?;
        let Matching {
            user,
            asset,
            device,
            session,
        } = matching;
        Ok(Self {
            partner,
            route: name.to_owned(),
            labels: routes.iter().map(|route| route.label).collect(),
            user,
            asset,
            device,
            session,
            after: after.unwrap_or(0),
            times,
            probability,
            seed: seed.unwrap_or(0),
            action,
            lifetime,
        })
    }
}

fn unknown_route(body: &Object, known: &[RouteFacts], name: &str) -> ApiError {
    let names = targets::routes(known, "any");
    let names: Vec<&str> = names.iter().map(|route| route.operation_id).collect();
    let hint = targets::nearest_name(known, name).map(|near| format!("; did you mean {near}?"));
    let hint = hint.unwrap_or_default();
    body.refuse(
        "route",
        format!("must be any, license or one of {}{hint}", names.join(", ")),
    )
}

fn count(body: &Object, name: &str, least: i64) -> Result<Option<u64>, ApiError> {
    let Some(number) = body.integer(name)? else {
        return Ok(None);
    };
    if !(least..=COUNT_MAX).contains(&number) {
        let why = format!("must be from {least} to {COUNT_MAX}");
        return Err(body.refuse(name, why));
    }
    Ok(u64::try_from(number).ok())
}

fn probability(body: &Object) -> Result<f64, ApiError> {
    let probability = body.number("probability")?.unwrap_or(1.0);
    // 0 would be a fault that never happens.
    if probability > 0.0 && probability <= 1.0 {
        return Ok(probability);
    }
    Err(body.refuse("probability", "must be above 0 and at most 1"))
}

struct Matching {
    user: Option<UserIdOrEmail>,
    asset: Option<String>,
    device: Option<String>,
    session: Option<SessionId>,
}

/// Parses `match`. A condition that no request of the routes can meet is refused.
fn matching(
    body: &Object,
    partner: &PartnerIdOrName,
    routes: &[&RouteFacts],
) -> Result<Matching, ApiError> {
    let Some(conditions) = body.object("match")? else {
        return Ok(Matching {
            user: None,
            asset: None,
            device: None,
            session: None,
        });
    };
    conditions.only(&["user", "asset", "device", "session"])?;
    let possible = |name: &str, carries: fn(Carried) -> bool| {
        if routes.iter().any(|route| carries(targets::carried(route))) {
            return Ok(());
        }
        let why = format!("can never match: requests of this route carry no {name}");
        Err(conditions.refuse(name, why))
    };
    let given = |name: &str, carries: fn(Carried) -> bool| {
        let text = conditions.text(name)?;
        text.map(|_| possible(name, carries)).transpose()?;
        match text {
            Some("") => Err(conditions.refuse(name, "is empty")),
            text => Ok(text.map(str::to_owned)),
        }
    };
    let (user, asset, device, session) = (
        given("user", |carried| carried.user),
        given("asset", |carried| carried.asset),
        given("device", |carried| carried.device),
        given("session", |carried| carried.session),
    )
        .combine()?;
    let read_user = |text: String| match UserId::parse(&text) {
        Ok(id) => Ok(UserIdOrEmail::Id(id)),
        Err(_) => Email::parse(&text)
            .map(|email| UserIdOrEmail::Email(email, Some(partner.clone())))
            .map_err(|_| conditions.refuse("user", "must be a user id or an e-mail address")),
    };
    let read_session =
        |text: String| SessionId::parse(&text).map_err(|why| conditions.refuse("session", why.0));
    let (user, session) = (
        user.map(read_user).transpose(),
        session.map(read_session).transpose(),
    )
        .combine()?;
    Ok(Matching {
        user,
        asset,
        device,
        session,
    })
}

const ACTIONS: [&str; 6] = ["refuse", "delay", "status", "cut", "license", "playlist"];

/// Parses `do`: one action, with its own members.
fn action(body: &Object, routes: &[&RouteFacts]) -> Result<FaultAction, ApiError> {
    let missing = || {
        body.refuse(
            "do",
            "must have refuse, delay, status, cut, license or playlist",
        )
    };
    let what = body.object("do")?.ok_or_else(missing)?;
    what.only(&[
        "refuse",
        "delay",
        "jitter",
        "status",
        "retryAfter",
        "cut",
        "license",
        "playlist",
    ])?;
    let given: Vec<&str> = ACTIONS.into_iter().filter(|name| what.has(name)).collect();
    let [name] = given[..] else {
        return match given.is_empty() {
            true => Err(missing()),
            false => Err(body.refuse("do", "must have one action only")),
        };
    };
    for (member, owner) in [("jitter", "delay"), ("retryAfter", "status")] {
        if what.has(member) && name != owner {
            return Err(what.refuse(member, format!("needs {owner}")));
        }
    }
    match name {
        "refuse" => what
            .required("refuse", |text| {
                ErrorCode::parse(text).ok_or(Malformed("is no error code of the interface"))
            })
            .map(|code| FaultAction::Refuse(code.as_str())),
        "delay" => delay(&what),
        "status" => status(&what),
        "cut" => what.required("cut", |text| match text {
            "head" => Ok(FaultAction::Cut(CutAt::Head)),
            "body" => Ok(FaultAction::Cut(CutAt::Body)),
            _ => Err(Malformed("must be head or body")),
        }),
        "license" => license(&what, routes),
        _ => playlist(&what, routes),
    }
}

fn delay(what: &Object) -> Result<FaultAction, ApiError> {
    let base = what.required("delay", parse_span)?;
    let jitter = what.parsed("jitter", parse_span)?.unwrap_or_default();
    if base + jitter > DELAY_MAX {
        return Err(what.refuse("delay", "must be at most 120s with its jitter"));
    }
    Ok(FaultAction::Delay { base, jitter })
}

fn status(what: &Object) -> Result<FaultAction, ApiError> {
    let status = what.integer("status")?.unwrap_or_default();
    let status = u16::try_from(status).ok();
    let status = status.filter(|status| (400..=599).contains(status));
    let status = status.ok_or_else(|| what.refuse("status", "must be from 400 to 599"))?;
    let retry_after = what.integer("retryAfter")?;
    let retry_after = retry_after
        .map(|seconds| {
            let seconds = u32::try_from(seconds).ok();
            let seconds = seconds.filter(|seconds| *seconds <= 86_400);
            seconds.ok_or_else(|| what.refuse("retryAfter", "must be from 0 to 86400"))
        })
        .transpose()?;
    Ok(FaultAction::Status {
        status,
        retry_after,
    })
}

fn license(what: &Object, routes: &[&RouteFacts]) -> Result<FaultAction, ApiError> {
    let fault = what.required("license", |text| match text {
        "garbage" => Ok(LicenseFault::Garbage),
        "empty" => Ok(LicenseFault::Empty),
        "foreignKid" => Ok(LicenseFault::ForeignKid),
        _ => Err(Malformed("must be garbage, empty or foreignKid")),
    })?;
    if !routes.iter().all(|route| targets::is_license(route)) {
        return Err(what.refuse("license", "can never happen: this route issues no license"));
    }
    let clear_key = routes.iter().any(|route| route.label == "license_clearkey");
    if fault == LicenseFault::ForeignKid && !clear_key {
        let why = "foreignKid needs route license_clearkey: other licenses are encrypted";
        return Err(what.refuse("license", why));
    }
    Ok(FaultAction::License(fault))
}

fn playlist(what: &Object, routes: &[&RouteFacts]) -> Result<FaultAction, ApiError> {
    let fault = what.required("playlist", |text| match text {
        "expired" => Ok(PlaylistFault::Expired),
        "missing" => Ok(PlaylistFault::Missing),
        "stale" => Ok(PlaylistFault::Stale),
        _ => Err(Malformed("must be expired, missing or stale")),
    })?;
    if !routes.iter().all(|route| targets::is_preflight(route)) {
        let why = "can never happen: only preflight returns a playlist";
        return Err(what.refuse("playlist", why));
    }
    Ok(FaultAction::Playlist(fault))
}

pub(crate) struct FaultRequest {
    pub partner: PartnerIdOrName,
    pub fault: Option<FaultId>,
}

impl ParseRequest for FaultRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            partner: PartnerIdOrName::read(&input.text("partner")?),
            // Malformed text is an unknown id.
            fault: FaultId::parse(&input.text("fault")?),
        })
    }
}
