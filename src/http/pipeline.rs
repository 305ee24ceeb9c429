//! The path of a request, from the head that hyper has read to the response, in order:
//!
//! 1. `call` begins the request. Whatever it needs only the head and memory for is answered right here, without boxing
//!    a future, because most requests are of that kind.
//! 2. `check` runs every check that comes before the body, in a fixed order: framing, path (404), method (405), partner
//!    (401), user (401), rate limit (429), fault of a lab partner, body size (413), content coding (415).
//! 3. `answer_later` reads the body, if there is one, and waits for the handler within its deadline.
//! 4. `cached_or_handled` looks into the response cache, and calls the handler that the row of the route table names.
//! 5. `Call::serve` parses the request (400) and calls the handler, through the audit record or the cache if they
//!    concern it.
//! 6. `wait_until_fresh` keeps the owner of a fleet from sending an outdated answer; `build_response` builds, counts and logs it.
//!
//! At a standby of a fleet, `standby` decides before step 1 where a request is answered. No rule of a single route belongs
//! here.

#![deny(clippy::wildcard_enum_match_arm)]

use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::request::Parts;
use http_body::Body as _;
use hyper::body::Incoming;

use crate::http::access::audit::{AuditDraft, run_audited};
use crate::http::access::auth::{Credentials, Proof, check_own_record, check_rate, prove};
use crate::http::access::cors;
use crate::http::access::local_admin::Administrator;
use crate::http::connection::state::ConnectionState;
use crate::http::deadline::{panicked, with_deadline};
use crate::http::errors::api_error::{ApiError, ErrorCode};
use crate::http::faults::{self, ConnectionCut, LabRequest};
use crate::http::request::body::{self, Coding, drain_refused};
use crate::http::request::body_budget::{BodyBudget, BodySender};
use crate::http::request::context::{Context, client_address, reported_country};
use crate::http::request::head_validation::{check_answers_for, check_framing, check_path};
use crate::http::request::headers::RequestHeaders;
use crate::http::request::query::Query;
use crate::http::response::cache::CacheLookup;
use crate::http::response::journal_entry::partner_of;
use crate::http::response::respond::{Answered, RequestRecord, ResponseFuture, build_response};
use crate::http::routing::endpoint::{Answer, HandlerOutcome, Input, ParseRequest, Payload};
use crate::http::routing::route::{BodyRule, Route};
use crate::http::routing::router::{Params, RouteMatch, RouteSet};
use crate::http::standby::{self, OwnerConnections};
use crate::http::state::HttpState;
use crate::types::UnixSeconds;

#[derive(Clone)]
pub(crate) struct Service {
    pub http: Arc<HttpState>,
    pub routes: RouteSet,
    pub administrator: Option<Administrator>,
    pub peer: IpAddr,
    pub conn_state: Arc<ConnectionState>,
    /// Set at a member of a fleet, on connections of clients.
    pub owner: Option<Arc<OwnerConnections>>,
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
        let charge = budget.charge(BodySender::new(&self.proof, self.cx.peer));
        body::read(body, self.route.body, self.coding, charge).await
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

impl hyper::service::Service<Request<Incoming>> for Service {
    type Response = Answered;
    type Error = ConnectionCut;
    type Future = ResponseFuture;

    fn call(&self, request: Request<Incoming>) -> ResponseFuture {
        let target_has_fragment = self.conn_state.begin();
        if let Some(owner) = self.owner.as_ref().filter(|owner| owner.is_standby()) {
            let (service, owner) = (self.clone(), Arc::clone(owner));
            return ResponseFuture::Later(Box::pin(async move {
                standby::answer(service, &owner, request, target_has_fragment).await
            }));
        }
        let (parts, body) = request.into_parts();
        self.respond(parts, body, target_has_fragment)
    }
}

impl Service {
    pub(crate) fn respond(
        &self,
        parts: Parts,
        body: Incoming,
        target_has_fragment: bool,
    ) -> ResponseFuture {
        let http = &self.http;
        let heads = RequestHeaders::read(&parts.headers, &http.names);
        let mut record = RequestRecord::new(http, self.routes, &parts, &heads);
        match self.start_guarded(&mut record, &parts, &heads, &body, target_has_fragment) {
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
        target_has_fragment: bool,
    ) -> PipelineStep {
        let step = catch_unwind(AssertUnwindSafe(|| {
            self.start(record, parts, heads, body, target_has_fragment)
        }));
        step.unwrap_or_else(|_| PipelineStep::Answered(Err(panicked(&self.http))))
    }

    fn start(
        &self,
        record: &mut RequestRecord,
        parts: &Parts,
        heads: &RequestHeaders<'_>,
        body: &Incoming,
        target_has_fragment: bool,
    ) -> PipelineStep {
        match self.check(record, parts, heads, body, target_has_fragment) {
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
        target_has_fragment: bool,
    ) -> Result<CheckResult, ApiError> {
        let http = &*self.http;
        // After broken framing nobody knows where the next request begins.
        if let Err(error) = check_framing(parts, heads, target_has_fragment) {
            record.close = true;
            return Err(error);
        }
        // Requests over the administration socket have no meaningful `Host`: the file mode of the socket
        // controls access.
        if self.routes == RouteSet::Ops && self.administrator.is_none() {
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
        let found = self.routes.find(&parts.method, path);
        let found = found.and_then(|found| found.check_method(&parts.method));
        let found = found.inspect_err(|_| {
            // The developers of a partner look for wrong addresses of their clients, too.
            if self.routes == RouteSet::Public {
                record.draft.identify(partner_of(http, heads, now));
            }
        });
        let (index, route, params) = match found? {
            RouteMatch::Route(index, route, params) => (index, route, params),
            RouteMatch::Path(entry) => {
                let reply = cors::options(entry, &parts.headers);
                return Ok(CheckResult::Answered(Ok(reply)));
            }
        };
        // Set before the checks that can fail: errors are logged and rendered by route.
        record.route = Some((index, route));
        let query = Query::new(parts.uri.query().unwrap_or_default());
        let credentials = Credentials {
            heads,
            query,
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
        // After authentication, because the limits of a partner count by partner, and before the body, which costs the
        // most.
        check_rate(&*http.authenticator, route.rate, proof.partner(), peer, now)?;
        let server_now = now;
        let now = now + proof.clock_offset();
        if let Some(partner) = proof.lab() {
            let request = LabRequest::new(partner, &proof, route, path, params, heads);
            if let Some(answer) = faults::begin(http, record, &request, now) {
                return Ok(CheckResult::Answered(answer));
            }
        }
        let coding = if body.is_end_stream() {
            Coding::Identity
        } else {
            body::check(body, heads, route.body)?
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
    };
    let mut call = HandlerCall {
        http,
        record,
        cx: entry.cx,
        input,
        payload,
        lookup,
        draft: None,
    };
    match entry.proof {
        Proof::Open(auth, handler) => (handler.serve)(call, auth),
        Proof::Partner(auth, handler) => (handler.serve)(call, auth),
        Proof::User(auth, handler) => {
            // Here for all routes, so that no handler can forget it.
            check_own_record(&auth, &call.input)?;
            (handler.serve)(call, auth)
        }
        Proof::Operator(auth, handler) => {
            let query = parts.uri.query();
            call.draft = AuditDraft::new(auth, entry.route, &call.input, query, heads);
            (handler.serve)(call, auth)
        }
    }
}

/// An authenticated request on its way to the handler of its route.
pub(crate) struct HandlerCall<'a> {
    http: &'a Arc<HttpState>,
    record: &'a mut RequestRecord,
    cx: Context,
    input: Input<'a>,
    payload: Payload,
    lookup: Option<CacheLookup<'a>>,
    /// Set for changes and reads of secrets.
    draft: Option<AuditDraft>,
}

impl HandlerCall<'_> {
    /// Parses the request and calls the handler: through the audit record, through the cache, or directly.
    pub(crate) fn serve<A, R, F>(self, auth: A, handler: F) -> Result<HandlerOutcome, ApiError>
    where
        A: Send + 'static,
        R: ParseRequest,
        F: FnOnce(&Arc<HttpState>, Context, A, R) -> HandlerOutcome + Send + 'static,
    {
        let (http, cx) = (self.http, self.cx);
        if let (Payload::Whole(body), Some((_, route))) = (&self.payload, self.record.route)
            && route.journals_body()
        {
            self.record.draft.body = Some(body.clone());
        }
        let request = R::parse(&self.input, self.payload)?;
        self.record.successor = request.successor();
        // Recorded before the handler runs: there is no change without an entry.
        if let Some(draft) = self.draft {
            let handler = Box::new(move |http: &_, cx| handler(http, cx, auth, request));
            let audited = run_audited(Arc::clone(http), cx, draft, handler);
            return Ok(HandlerOutcome::Later(Box::pin(audited)));
        }
        let Some((lookup, meaning)) = self
            .lookup
            .and_then(|lookup| Some((lookup, request.cache_key()?)))
        else {
            return Ok(handler(http, cx, auth, request));
        };
        // The same request may be cached under another spelling.
        if let Some(reply) = lookup.by_meaning(&meaning) {
            return Ok(HandlerOutcome::Now(Ok(reply)));
        }
        let outcome = handler(http, cx, auth, request);
        if let HandlerOutcome::Now(Ok(reply)) = &outcome {
            lookup.insert(&meaning, reply);
        }
        Ok(outcome)
    }
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
    let answer = faults::apply(&http, &mut record, answer).await;
    let heads = RequestHeaders::read(&parts.headers, &http.names);
    let fault = record.fault.clone();
    let response = build_response(&http, &conn_state, record, &parts, &heads, answer);
    faults::cut(fault.as_ref(), response)
}
