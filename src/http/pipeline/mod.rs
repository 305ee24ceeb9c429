//! The path of a request, from the head that hyper has read to the response, in order:
//!
//! 1. `respond` begins the request. Whatever it needs only the head and memory for is answered right here, without boxing
//!    a future, because most requests are of that kind.
//! 2. `check` runs every check that comes before the body, in a fixed order: framing, path (404), method (405), partner
//!    (401), user (401), rate limit (429), fault of a lab partner, body size (413), content coding (415).
//! 3. `answer_later` reads the body, if there is one, and waits for the handler within its deadline.
//! 4. `cached_or_handled` looks into the response cache, parses the request (400) and calls the handler that the row of
//!    the route table names, through the audit record or the cache if they concern it.
//! 5. `wait_until_fresh` keeps the owner of a fleet from sending an outdated answer; `build_response` builds, counts and logs it.
//!
//! At a standby of a fleet, `standby` decides before that where a request is answered. No rule of a single route belongs
//! here.

#![deny(clippy::wildcard_enum_match_arm)]

pub(crate) mod audit;
pub mod authentication;
pub(crate) mod cache_lookup;
pub(crate) mod cors;
pub(crate) mod deadline;
mod freshness;
pub mod journal_entry;
pub(crate) mod record;
pub(crate) mod response;

use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http_body::Body as _;
use hyper::body::Incoming;

use crate::access::auth::{Credentials, check_rate};
use crate::access::local_admin::Administrator;
use crate::connection_state::ConnectionState;
use crate::errors::api_error::{ApiError, ErrorCode};
use crate::faults::{self, LabRequest, Rewritten};
use crate::pipeline::audit::{AuditDraft, run_audited};
use crate::pipeline::authentication::{Proof, check_own_record, partner_of, prove};
use crate::pipeline::cache_lookup::CacheLookup;
use crate::pipeline::deadline::{panicked, with_deadline};
use crate::pipeline::record::RequestRecord;
use crate::pipeline::response::{Answered, ResponseFuture, build_response};
use crate::request::body::drain_refused;
use crate::request::body_budget::{BodyBudget, BodySender};
use crate::request::context::{Context, client_address, reported_country};
use crate::request::head_validation::{check_answers_for, check_framing, check_path};
use crate::request::headers::RequestHeaders;
use crate::request::params::Params;
use crate::request::payload::{self, BodyRule, Coding, Payload};
use crate::request::query::Query;
use crate::response::body::ConnectionCut;
use crate::response::reply::Answer;
use crate::route_facts::RouteSet;
use crate::routing::endpoint::{HandlerOutcome, Input};
use crate::routing::route::Route;
use crate::routing::router::{RouteMatch, Router};
use crate::state::HttpState;
use playgate_types::UnixSeconds;

#[derive(Clone)]
pub(crate) struct Service {
    pub http: Arc<HttpState>,
    pub router: &'static Router,
    pub administrator: Option<Administrator>,
    pub peer: IpAddr,
    pub conn_state: Arc<ConnectionState>,
}

pub(crate) struct AdmittedRequest {
    proof: Proof,
    params: Params,
    cx: Context,
    route: &'static Route,
    coding: Coding,
}

impl AdmittedRequest {
    async fn read(&self, budget: &Arc<BodyBudget>, body: Incoming) -> Result<Payload, ApiError> {
        let charge = budget.charge(sender(&self.proof, self.cx.peer));
        payload::read(body, self.route.body, self.coding, charge).await
    }
}

fn sender(proof: &Proof, peer: IpAddr) -> BodySender {
    match proof {
        Proof::Operator(..) => BodySender::OPERATOR,
        Proof::Open(..) | Proof::Partner(..) | Proof::User(..) => {
            BodySender::client(proof.user(), proof.partner(), peer)
        }
    }
}

enum CheckResult {
    /// An OPTIONS request, or a request that a fault of the lab answers.
    Answered(Answer),
    Go(AdmittedRequest),
}

pub(crate) enum PipelineStep {
    Answered(Answer),
    Read(AdmittedRequest),
    Waiting(Pin<Box<dyn Future<Output = Answer> + Send>>),
}

impl Service {
    pub(crate) fn respond(&self, parts: Parts, body: Incoming) -> ResponseFuture {
        let http = &self.http;
        let heads = RequestHeaders::read(&parts.headers, &http.names);
        let mut record = RequestRecord::new(http, self.router, &parts, &heads);
        match self.start_guarded(&mut record, &parts, &heads, &body) {
            // No body is left to drain, so the response needs no boxed future.
            PipelineStep::Answered(answer)
                if body.is_end_stream()
                    && record.fault.is_none()
                    && http.is_surely_fresh(record.route, &answer) =>
            {
                ResponseFuture::Ready(Some(build_response(
                    http,
                    &self.conn_state,
                    record,
                    &parts,
                    &heads,
                    answer,
                )))
            }
            step @ (PipelineStep::Answered(_)
            | PipelineStep::Read(_)
            | PipelineStep::Waiting(_)) => ResponseFuture::Later(Box::pin(answer_later(
                Arc::clone(http),
                Arc::clone(&self.conn_state),
                record,
                parts,
                body,
                step,
            ))),
        }
    }

    /// Parsing and cheap handlers run right here, so a panic must not unwind into hyper.
    pub(crate) fn start_guarded(
        &self,
        record: &mut RequestRecord,
        parts: &Parts,
        heads: &RequestHeaders<'_>,
        body: &Incoming,
    ) -> PipelineStep {
        let step = catch_unwind(AssertUnwindSafe(|| self.start(record, parts, heads, body)));
        step.unwrap_or_else(|_| PipelineStep::Answered(Err(panicked(&self.http))))
    }

    fn start(
        &self,
        record: &mut RequestRecord,
        parts: &Parts,
        heads: &RequestHeaders<'_>,
        body: &Incoming,
    ) -> PipelineStep {
        match self.check(record, parts, heads, body) {
            Err(error) => PipelineStep::Answered(Err(error)),
            Ok(CheckResult::Answered(answer)) => PipelineStep::Answered(answer),
            Ok(CheckResult::Go(entry)) => {
                // The handler of a streamed body takes the stream even if it is empty.
                let streamed = matches!(entry.route.body, BodyRule::Streamed(_));
                if !body.is_end_stream() || streamed {
                    return PipelineStep::Read(entry);
                }
                let nothing = Payload::Whole(Bytes::new());
                match cached_or_handled(&self.http, record, parts, heads, entry, nothing) {
                    Ok(HandlerOutcome::Now(answer)) => PipelineStep::Answered(answer),
                    Ok(HandlerOutcome::Later(future)) => PipelineStep::Waiting(future),
                    Err(error) => PipelineStep::Answered(Err(error)),
                }
            }
        }
    }

    fn check(
        &self,
        record: &mut RequestRecord,
        parts: &Parts,
        heads: &RequestHeaders<'_>,
        body: &Incoming,
    ) -> Result<CheckResult, ApiError> {
        let http = &*self.http;
        // After broken framing nobody knows where the next request begins.
        if let Err(error) = check_framing(parts, heads) {
            record.close = true;
            return Err(error);
        }
        // Requests over the administration socket have no meaningful `Host`: the file mode of the socket
        // controls access.
        if self.router.set() == RouteSet::Ops && self.administrator.is_none() {
            check_answers_for(parts, heads, &http.settings.ops_hosts)?;
        }
        let path = parts.uri.path();
        check_path(path)?;
        // The only reading of the clock for this request: all its decisions agree on the time.
        let millis = http.services.clock.now_millis();
        let now = UnixSeconds(millis.div_euclid(1_000));
        let proxies = &http.settings.trusted_proxies;
        let peer = client_address(self.peer, &parts.headers, proxies);
        record.draft.at_millis = Some(millis);
        record.draft.peer = Some(peer);
        let found = self.router.find(&parts.method, path);
        let found = found.and_then(|found| found.check_method(&parts.method));
        let found = found.inspect_err(|_| {
            // The developers of a partner look for wrong addresses of their clients, too.
            if self.router.set() == RouteSet::Public {
                record.draft.identify(partner_of(http, heads, now));
            }
        });
        let (index, route, params) = match found? {
            RouteMatch::Route(index, route, params) => (index, route, params),
            RouteMatch::Path(entry) => {
                let reply = cors::options(&entry.allow, &parts.headers);
                return Ok(CheckResult::Answered(Ok(reply)));
            }
        };
        // Set before the checks that can fail: errors are logged and rendered by route.
        record.route = Some((index, route));
        let proof = self.authenticate(record, route, parts, heads, now)?;
        // After authentication, because the limits of a partner count by partner, and before the body, which costs the
        // most.
        check_rate(&*http.authenticator, route.rate, proof.partner(), peer, now)?;
        let server_now = now;
        let now = now + proof.clock_offset();
        if let Some(partner) = proof.lab() {
            let request = LabRequest {
                partner,
                user: proof.user(),
                label: route.label,
                path,
                params,
                heads,
                started: record.started,
            };
            record.lab_time = Some(now);
            record.fault = faults::find(http, &request);
            let fault = record.fault.as_ref();
            if let Some(answer) = fault.and_then(|one| faults::replacement(one, route.label)) {
                return Ok(CheckResult::Answered(answer));
            }
        }
        let coding = if body.is_end_stream() {
            Coding::Identity
        } else {
            payload::check(body, heads, route.body)?
        };
        let cx = Context {
            now,
            server_now,
            request_id: record.id.clone(),
            peer,
            reported_country: http
                .geo_header
                .as_ref()
                .and_then(|name| reported_country(self.peer, &parts.headers, name, proxies)),
            accept_language: heads.accept_language.joined(),
            change: None,
            trace: record.draft.trace.clone(),
        };
        Ok(CheckResult::Go(AdmittedRequest {
            proof,
            params,
            cx,
            route,
            coding,
        }))
    }

    fn authenticate(
        &self,
        record: &mut RequestRecord,
        route: &Route,
        parts: &Parts,
        heads: &RequestHeaders<'_>,
        now: UnixSeconds,
    ) -> Result<Proof, ApiError> {
        let http = &*self.http;
        let credentials = Credentials {
            heads,
            query: Query::new(parts.uri.query().unwrap_or_default()),
            takes_query_token: route.query_token,
            names: &http.names,
            administrator: self.administrator,
        };
        let proof = prove(&*http.authenticator, route, &credentials, now);
        let proof = proof.inspect_err(|error| {
            // The partner token was accepted: the partner's developers look for this refusal.
            if error.code() == ErrorCode::UserTokenInvalid {
                record.draft.identify(partner_of(http, heads, now));
            }
        })?;
        record.user = proof.user();
        record.draft.admit(&proof, route);
        Ok(proof)
    }
}

/// Answers from the cache, or hands the request to the handler of its route.
fn cached_or_handled(
    http: &Arc<HttpState>,
    record: &mut RequestRecord,
    parts: &Parts,
    heads: &RequestHeaders<'_>,
    entry: AdmittedRequest,
    payload: Payload,
) -> Result<HandlerOutcome, ApiError> {
    // The first change ends the possible rollback of a format upgrade, which would lose it. A POST that changes
    // nothing, such as a verification, must not end it.
    if entry.route.is_change {
        http.services.store_admin.finalize_upgrade()?;
    }
    let cached_from = entry.route.cached_from;
    let lookup =
        cached_from.and_then(|length| CacheLookup::new(http, length, parts, heads, entry.cx.now));
    // By the text of the request, so that a hit needs no parsing.
    if let Some(reply) = lookup.as_ref().and_then(CacheLookup::by_text) {
        return Ok(HandlerOutcome::Now(Ok(reply)));
    }
    let input = Input {
        path: parts.uri.path(),
        params: entry.params,
        query: Query::new(parts.uri.query().unwrap_or_default()),
        heads,
        names: &http.names,
        password_min: usize::try_from(http.services.config.accounts.password_min).unwrap_or(0),
        partner_routes: &http.routes.public,
    };
    if let Payload::Whole(body) = &payload
        && entry.route.journals_body()
    {
        record.draft.body = Some(body.clone());
    }
    let mut draft = None;
    let request = match entry.proof {
        Proof::Open(auth, handler) => (handler.bind)(&input, payload, auth),
        Proof::Partner(auth, handler) => (handler.bind)(&input, payload, auth),
        Proof::User(auth, handler) => {
            // Here for all routes, so that no handler can forget it.
            check_own_record(&auth, &input)?;
            (handler.bind)(&input, payload, auth)
        }
        Proof::Operator(auth, handler) => {
            draft = AuditDraft::new(auth, entry.route, &input, parts.uri.query(), heads);
            (handler.bind)(&input, payload, auth)
        }
    }?;
    record.successor = request.successor();
    // Recorded before the handler runs: there is no change without an entry.
    if let Some(draft) = draft {
        let audited = run_audited(Arc::clone(http), entry.cx, draft, request);
        return Ok(HandlerOutcome::Later(Box::pin(audited)));
    }
    let Some((lookup, meaning)) = lookup.and_then(|lookup| Some((lookup, request.cache_key()?)))
    else {
        return Ok(request.handle(http, entry.cx));
    };
    // The same request may be cached under another spelling.
    if let Some(reply) = lookup.by_meaning(&meaning) {
        return Ok(HandlerOutcome::Now(Ok(reply)));
    }
    let outcome = request.handle(http, entry.cx);
    if let HandlerOutcome::Now(Ok(reply)) = &outcome {
        lookup.insert(&meaning, reply);
    }
    Ok(outcome)
}

async fn answer_later(
    http: Arc<HttpState>,
    conn_state: Arc<ConnectionState>,
    mut record: RequestRecord,
    parts: Parts,
    body: Incoming,
    step: PipelineStep,
) -> Result<Answered, ConnectionCut> {
    let deadline = record
        .route
        .map_or(Duration::MAX, |(_, route)| route.work.deadline());
    let answer = match step {
        PipelineStep::Answered(answer) => {
            // Body bytes that were not drained would be read as the next request.
            record.close |= !drain_refused(&parts.headers, body).await;
            answer
        }
        PipelineStep::Waiting(future) => with_deadline(&http, deadline, future).await,
        PipelineStep::Read(entry) => match entry.read(&http.bodies, body).await {
            Ok(payload) => {
                let heads = RequestHeaders::read(&parts.headers, &http.names);
                // A panic becomes a 500 of this request only.
                let outcome = catch_unwind(AssertUnwindSafe(|| {
                    cached_or_handled(&http, &mut record, &parts, &heads, entry, payload)
                }));
                match outcome.unwrap_or_else(|_| Err(panicked(&http))) {
                    Ok(HandlerOutcome::Now(answer)) => answer,
                    Ok(HandlerOutcome::Later(future)) => {
                        with_deadline(&http, deadline, future).await
                    }
                    Err(error) => Err(error),
                }
            }
            Err(error) => {
                // The rest of the body was not read, so the start of the next request cannot be found.
                record.close = true;
                Err(error)
            }
        },
    };
    let answer = http.wait_until_fresh(record.route, answer).await;
    let answer = apply_fault(&http, &mut record, answer).await;
    let heads = RequestHeaders::read(&parts.headers, &http.names);
    let fault = record.fault.clone();
    let response = build_response(&http, &conn_state, record, &parts, &heads, answer);
    faults::cut(fault.as_ref(), response)
}

/// Applies the fault of a lab partner to the answer.
async fn apply_fault(http: &HttpState, record: &mut RequestRecord, answer: Answer) -> Answer {
    let Some(fault) = &record.fault else {
        return answer;
    };
    // The delay comes before anything is built, so it holds no lock and no thread.
    tokio::time::sleep(fault.delay).await;
    match faults::rewrite(http, fault, &answer) {
        Rewritten::Kept => answer,
        Rewritten::Changed(rewritten) => rewritten,
        Rewritten::Nothing => {
            // Neither header nor journal may claim a fault that changed nothing.
            record.fault = None;
            answer
        }
    }
}
