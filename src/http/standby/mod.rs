//! Requests at a member of a fleet that is not the owner.
//!
//! A standby answers a request from its own state if it is a read or a heartbeat, is successful, and leaves no record in the
//! request journal. It answers the probes of operators for itself. Everything else it forwards to the owner. So every refusal is the owner's, its journal is complete,
//! and there is no second set of rules. Before a read the standby catches up with the shared log: it never answers with a
//! state that is older than the request.

mod connections;
mod forward;

use std::sync::Arc;

use http::request::Parts;
use http::{Method, Request, StatusCode};
use hyper::body::Incoming;

use crate::pipeline::deadline::with_deadline;
use crate::pipeline::record::RequestRecord;
use crate::pipeline::response::{Answered, ResponseFuture, build_response};
use crate::pipeline::{PipelineStep, Service};
use crate::request::head_validation::{check_framing, check_path};
use crate::request::headers::RequestHeaders;
use crate::response::body::ConnectionCut;
use crate::response::reply::Answer;
use crate::route_facts::RouteSet;
use crate::routing::route::{Endpoint, Route};
use crate::routing::router::RouteMatch;
use crate::standby_fleet::AnsweredBy;
use crate::state::HttpState;
pub(crate) use connections::OwnerConnections;
use playgate_types::SessionId;

/// Where a request is answered.
enum Place {
    /// Here: the answer needs no state of the fleet.
    Here,
    /// Here, if the answer is a success.
    HereOrOwner(&'static Route),
    /// At the owner. There is no route if the owner has to refuse the path or the method.
    Owner(Option<&'static Route>),
}

/// Serves a connection of a client: at a standby by the owner or from its own state, everywhere else by the pipeline.
#[derive(Clone)]
pub(crate) struct MemberService {
    pub(crate) service: Service,
    /// Set at a standby.
    pub(crate) owner: Option<Arc<OwnerConnections>>,
}

impl hyper::service::Service<Request<Incoming>> for MemberService {
    type Response = Answered;
    type Error = ConnectionCut;
    type Future = ResponseFuture;

    fn call(&self, request: Request<Incoming>) -> ResponseFuture {
        self.service.conn_state.begin();
        // A member may have become the owner since the connection was opened.
        if let Some(owner) = self.owner.as_ref().filter(|owner| owner.is_standby()) {
            let (service, owner) = (self.service.clone(), Arc::clone(owner));
            return ResponseFuture::Later(Box::pin(async move {
                answer(service, &owner, request).await
            }));
        }
        let (parts, body) = request.into_parts();
        self.service.respond(parts, body)
    }
}

/// Answers a request here or at the owner.
async fn answer(
    service: Service,
    owner: &OwnerConnections,
    request: Request<Incoming>,
) -> Result<Answered, ConnectionCut> {
    let (parts, body) = request.into_parts();
    let (route, local_route) = match place_of(&service, &parts, &body) {
        Place::Here => return service.respond(parts, body).await,
        Place::HereOrOwner(route) => (Some(route), Some(route)),
        Place::Owner(route) => (route, None),
    };
    // A heartbeat is answered from what was known a moment ago, and recorded for the owner.
    let beat = local_route.and_then(|route| beating_session(&service.http, route, &parts));
    let fleet = &owner.fleet;
    // Operators are no clients of the platform.
    let count = |place| {
        if service.router.set() == RouteSet::Public {
            fleet.count(place);
        }
    };
    if let Some(route) = local_route
        && is_up_to_date(&service.http, owner, route).await
        && let Some(response) = answer_here(&service, &parts, &body, route).await
    {
        if let Some(session) = beat {
            fleet.relay_beat(session);
        }
        count(AnsweredBy::This);
        return Ok(response);
    }
    count(AnsweredBy::Owner);
    let response = forward::forward(&service, owner, route, parts, body).await?;
    if let Some(session) = beat
        && response.status() == StatusCode::OK
    {
        let services = &service.http.services;
        let now = services.clock.now();
        services.playback.confirm_beat(&session, now);
    }
    Ok(response)
}

/// Returns the session of a heartbeat, the only change that a standby answers.
fn beating_session(http: &HttpState, route: &Route, parts: &Parts) -> Option<SessionId> {
    let heads = RequestHeaders::read(&parts.headers, &http.names);
    let session = heads.play.session.ascii().filter(|_| route.is_change)?;
    SessionId::parse(session).ok()
}

fn place_of(service: &Service, parts: &Parts, body: &Incoming) -> Place {
    let heads = RequestHeaders::read(&parts.headers, &service.http.names);
    let path = parts.uri.path();
    // What is malformed must not be forwarded: the owner might read it differently.
    let is_well_formed = check_framing(parts, &heads).is_ok()
        && check_path(path).is_ok()
        && parts.method != Method::CONNECT;
    if !is_well_formed {
        return Place::Here;
    }
    match service.router.find(&parts.method, path) {
        Ok(RouteMatch::Path(_)) if parts.method == Method::OPTIONS => Place::Here,
        // A probe speaks of the member that is asked, also where the owner is gone.
        Ok(RouteMatch::Route(_, route, _))
            if service.router.set() == RouteSet::Ops && route.is_served_by_standbys =>
        {
            match asks_for_fleet(parts) {
                true => Place::Owner(Some(route)),
                false => Place::Here,
            }
        }
        Ok(RouteMatch::Route(_, route, _)) if route.is_served_by_standbys => {
            // The clock of a lab is that of the owner's process.
            let has_own_clock = service.http.services.lab_clock.is_some();
            match hyper::body::Body::is_end_stream(body) && !has_own_clock {
                true => Place::HereOrOwner(route),
                false => Place::Owner(Some(route)),
            }
        }
        Ok(RouteMatch::Route(_, route, _)) => Place::Owner(Some(route)),
        Ok(RouteMatch::Path(_)) | Err(_) => Place::Owner(None),
    }
}

/// Whether a probe asks about the whole fleet, which its owner knows.
fn asks_for_fleet(parts: &Parts) -> bool {
    let query = parts.uri.query().unwrap_or_default();
    let mut names = query.split('&').map(|pair| pair.split('=').next());
    names.any(|name| name == Some("fleet"))
}

async fn is_up_to_date(http: &HttpState, owner: &OwnerConnections, route: &Route) -> bool {
    // Pages and media files do not depend on the store.
    if matches!(route.endpoint, Endpoint::Open(_)) {
        return true;
    }
    let services = &http.services;
    let has_caught_up = match route.skips_freshness_check {
        true => owner.fleet.is_following(),
        false => owner.fleet.catch_up().await,
    };
    // After the store, because they are derived from it in the background.
    has_caught_up && services.catalog.is_current() && services.schedule.is_current()
}

/// Returns `None` if the owner has to answer. The request has no body.
async fn answer_here(
    service: &Service,
    parts: &Parts,
    body: &Incoming,
    route: &Route,
) -> Option<Answered> {
    let http = &service.http;
    let heads = RequestHeaders::read(&parts.headers, &http.names);
    let mut record = RequestRecord::new(http, service.router, parts, &heads);
    let answer = match service.start_guarded(&mut record, parts, &heads, body) {
        PipelineStep::Answered(answer) => answer,
        PipelineStep::Waiting(future) => with_deadline(http, route.work.deadline(), future).await,
        PipelineStep::Read(_) => return None,
    };
    if !is_final(&record, &answer) {
        return None;
    }
    let conn_state = &service.conn_state;
    Some(build_response(
        http, conn_state, record, parts, &heads, answer,
    ))
}

fn is_final(record: &RequestRecord, answer: &Answer) -> bool {
    answer.is_ok() && !record.is_journaled(StatusCode::OK)
}
