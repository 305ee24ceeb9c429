//! Runs one request: request id, checks, deadline, panic barrier, response, metrics and access log.
//!
//! Checks run in a fixed order: framing, path (404), method (405), partner (401), user (401), rate limit
//! (429), body size (413), content coding (415), syntax and parameters (400), then the resource. This module
//! holds no rules of single endpoints. It answers requests that need only memory without boxing a future,
//! because most requests are of that kind.

#![deny(clippy::wildcard_enum_match_arm)]

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Response};
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::time::timeout;

use crate::http::access::audit::{AuditDraft, run_audited};
use crate::http::access::auth::{Administrator, Credentials, PARTNER_LIMIT, Proof, prove};
use crate::http::access::cors;
use crate::http::api::schedule::cached_reply;
use crate::http::connection::state::ConnectionState;
use crate::http::errors::api_error::{ApiError, ErrorCode};
use crate::http::request::body::{BodyStream, Coding, check, drain, gunzip};
use crate::http::request::client_addr;
use crate::http::request::context::Context;
use crate::http::request::head_validation::{check_answers_for, check_framing};
use crate::http::request::headers::RequestHeaders;
use crate::http::request::path_validation::check_path;
use crate::http::request::query::Query;
use crate::http::response::body::{InFlightGuard, ResponseBody};
use crate::http::response::cache::Moment;
use crate::http::response::content_encoding::{Preference, preference};
use crate::http::response::respond::{RequestRecord, finish};
use crate::http::routing::dispatch::{Answer, Outcome, dispatch};
use crate::http::routing::endpoint::{Endpoint, Input, Payload};
use crate::http::routing::route::{BodyRule, RateClass, Route};
use crate::http::routing::router::{Params, RouteMatch, RouteSet};
use crate::http::state::HttpState;
use crate::types::{Country, LimitReached};
use crate::worker_pool::fair_queue::Turn;

/// Serves the requests of one connection.
pub(crate) struct Service {
    pub http: Arc<HttpState>,
    pub table: RouteSet,
    /// The local administrator, if the connection uses the administration socket.
    pub local: Option<Administrator>,
    /// Address of the peer, which may be a proxy.
    pub peer: IpAddr,
    /// State shared with the connection task, which enforces the time-outs.
    pub conn_state: Arc<ConnectionState>,
}

/// A request that passed every check before its body and parameters.
struct Entry {
    proof: Proof,
    params: Params,
    cx: Context,
    route: &'static Route,
    coding: Coding,
}

/// Result of the synchronous part of a request.
enum Step {
    Answered(Answer),
    /// The handler needs the body first.
    Read(Entry),
    Waiting(Pin<Box<dyn Future<Output = Answer> + Send>>),
}

type Answered = Response<ResponseBody>;

pub(crate) enum ResponseFuture {
    /// Complete; `None` once polled.
    Ready(Option<Answered>),
    Later(Pin<Box<dyn Future<Output = Answered> + Send>>),
}

impl Future for ResponseFuture {
    type Output = Result<Answered, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Ready(answer) => answer.take().map_or(Poll::Pending, |a| Poll::Ready(Ok(a))),
            Self::Later(future) => future.as_mut().poll(cx).map(Ok),
        }
    }
}

impl hyper::service::Service<Request<Incoming>> for Service {
    type Response = Answered;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn call(&self, request: Request<Incoming>) -> ResponseFuture {
        let fragment = self.conn_state.begin();
        let (parts, body) = request.into_parts();
        let http = &self.http;
        let heads = RequestHeaders::read(&parts.headers, &http.names);
        let mut record = RequestRecord::new(http, self.table, &parts, &heads);
        // Parsing and cheap handlers run right here, so a panic must not unwind into hyper.
        let step = catch_unwind(AssertUnwindSafe(|| {
            self.start(&mut record, &parts, &heads, &body, fragment)
        }));
        let step = step.unwrap_or_else(|_| Step::Answered(Err(panicked(http))));
        match step {
            Step::Answered(answer) if body.is_end_stream() => ResponseFuture::Ready(Some(
                build_response(http, &self.conn_state, record, &heads, answer),
            )),
            step @ (Step::Answered(_) | Step::Read(_) | Step::Waiting(_)) => {
                ResponseFuture::Later(Box::pin(run_async(
                    Arc::clone(http),
                    Arc::clone(&self.conn_state),
                    record,
                    parts,
                    body,
                    step,
                )))
            }
        }
    }
}

/// Builds the response. Marks the request as ended in the connection state: at once for a complete body, at
/// the end of the stream for a streamed one.
fn build_response(
    http: &HttpState,
    conn_state: &Arc<ConnectionState>,
    mut record: RequestRecord,
    heads: &RequestHeaders<'_>,
    answer: Answer,
) -> Answered {
    record.close |= conn_state.is_lame_duck();
    let mut answer = finish(http, record, heads, answer);
    match answer.body_mut() {
        ResponseBody::Stream(_, busy) => *busy = Some(InFlightGuard::new(Arc::clone(conn_state))),
        ResponseBody::Empty | ResponseBody::Full(_) => conn_state.end(),
    }
    answer
}

fn panicked(http: &HttpState) -> ApiError {
    http.metrics.panics.one();
    ApiError::internal("the handler panicked")
}

impl Service {
    fn start(
        &self,
        record: &mut RequestRecord,
        parts: &Parts,
        heads: &RequestHeaders<'_>,
        body: &Incoming,
        fragment: bool,
    ) -> Step {
        match self.authorize(record, parts, heads, body, fragment) {
            Err(error) => Step::Answered(Err(error)),
            Ok(Entered::Options(reply)) => Step::Answered(Ok(reply)),
            Ok(Entered::Go(entry)) => {
                let streamed = matches!(entry.route.body, BodyRule::Streamed(_));
                if !body.is_end_stream() || streamed {
                    return Step::Read(entry);
                }
                match run_handler(
                    &self.http,
                    record,
                    parts,
                    heads,
                    entry,
                    Payload::Whole(Bytes::new()),
                ) {
                    Ok(Outcome::Now(answer)) => Step::Answered(answer),
                    Ok(Outcome::Later(future)) => Step::Waiting(future),
                    Err(error) => Step::Answered(Err(error)),
                }
            }
        }
    }

    /// Runs all checks that come before the body is read.
    fn authorize(
        &self,
        record: &mut RequestRecord,
        parts: &Parts,
        heads: &RequestHeaders<'_>,
        body: &Incoming,
        fragment: bool,
    ) -> Result<Entered, ApiError> {
        let http = &*self.http;
        if let Err(error) = check_framing(parts, heads, fragment) {
            record.close = true;
            return Err(error);
        }
        // Requests over the administration socket have no meaningful `Host`: the file mode of the socket
        // controls access.
        if self.table == RouteSet::Ops && self.local.is_none() {
            check_answers_for(parts, heads, &http.settings.ops_hosts)?;
        }
        let path = parts.uri.path();
        check_path(path)?;
        let (index, route, params) = match self.table.find(&parts.method, path)? {
            RouteMatch::Route(index, route, params) => (index, route, params),
            RouteMatch::Path(entry) if parts.method == Method::OPTIONS => {
                return Ok(Entered::Options(cors::options(entry, &parts.headers)));
            }
            RouteMatch::Path(entry) => {
                return Err(entry.refuse(&parts.method));
            }
        };
        record.route = Some((index, route));
        let now = http.services.clock.now();
        let query = Query::new(parts.uri.query().unwrap_or_default());
        let credentials = Credentials {
            heads,
            query,
            names: &http.names,
            local: self.local,
        };
        let proof = prove(&*http.authenticator, route, &credentials, now)?;
        record.user = proof.user();
        let peer = client_addr::client(self.peer, &parts.headers, &http.settings.trusted_proxies);
        record.turn = Turn::for_client(proof.partner(), peer);
        http.authenticator
            .admit(route.rate, proof.partner(), peer, now)
            .map_err(|limit| too_many(route.rate, limit))?;
        let coding = if body.is_end_stream() {
            Coding::Identity
        } else {
            check(body, heads, route.body)?
        };
        let cx = Context {
            now,
            request_id: record.id.clone(),
            peer,
            told_country: self.proxy_country(parts),
            accept_language: heads.accept_language.joined(),
            change: None,
        };
        Ok(Entered::Go(Entry {
            proof,
            params,
            cx,
            route,
            coding,
        }))
    }

    /// Returns the country that a proxy reported in the configured header. Only trusted proxies are believed.
    fn proxy_country(&self, parts: &Parts) -> Option<Country> {
        let name = self.http.geo_header.as_ref()?;
        let proxies = &self.http.settings.trusted_proxies;
        proxies
            .iter()
            .any(|network| network.contains(self.peer))
            .then_some(())?;
        Country::parse(parts.headers.get(name)?.to_str().ok()?).ok()
    }
}

enum Entered {
    Options(crate::http::response::reply::Reply),
    Go(Entry),
}

fn too_many(class: RateClass, limit: LimitReached) -> ApiError {
    let code = match class {
        _ if limit.name == PARTNER_LIMIT => ErrorCode::RateLimited,
        RateClass::General => ErrorCode::RateLimited,
        RateClass::SignUp | RateClass::Login | RateClass::ResetMail | RateClass::Reset => {
            ErrorCode::TooManyAttempts
        }
    };
    ApiError::new(code, "too many requests; see Retry-After").with_limit(limit)
}

/// Parses the parameters and calls the handler, or returns a cached response.
fn run_handler(
    http: &Arc<HttpState>,
    record: &mut RequestRecord,
    parts: &Parts,
    heads: &RequestHeaders<'_>,
    entry: Entry,
    payload: Payload,
) -> Result<Outcome, ApiError> {
    let cacheable = entry
        .route
        .cached_from
        .and_then(|length| cacheable(http, &entry.cx, parts, heads, length));
    if let Some((request, at)) = cacheable
        && let Some(response) = http.responses.find_by_text(request, at)
    {
        return Ok(Outcome::Now(Ok(cached_reply(
            &http.services,
            &entry.cx,
            response,
        ))));
    }
    let input = Input {
        path: parts.uri.path(),
        params: entry.params,
        query: Query::new(parts.uri.query().unwrap_or_default()),
        heads,
        names: &http.names,
        password_min: usize::try_from(http.services.config.accounts.password_min).unwrap_or(0),
    };
    let draft = match entry.proof {
        Proof::Operator(auth, _) => {
            AuditDraft::new(auth, entry.route, &input, parts.uri.query(), heads)
        }
        Proof::Open(_) | Proof::Partner(..) | Proof::User(..) => None,
    };
    let endpoint = Endpoint::parse(entry.proof, &input, payload)?;
    if entry.route.deprecated.is_some() {
        record.successor = endpoint.successor();
    }
    // Changes and reads of secrets go through the audit record. Their responses are never cached.
    if let Some(draft) = draft {
        let audited = run_audited(Arc::clone(http), entry.cx, draft, endpoint);
        return Ok(Outcome::Later(Box::pin(audited)));
    }
    let Some(((request, at), meaning)) = cacheable.zip(endpoint.cache_key()) else {
        return Ok(dispatch(http, entry.cx, endpoint));
    };
    let responses = &http.responses;
    if let Some(response) = responses.find_by_meaning(&meaning, request, at) {
        return Ok(Outcome::Now(Ok(cached_reply(
            &http.services,
            &entry.cx,
            response,
        ))));
    }
    let outcome = dispatch(http, entry.cx, endpoint);
    if let Outcome::Now(Ok(reply)) = &outcome
        && let Some(response) = reply.cacheable()
    {
        responses.insert(&meaning, request, response, at);
    }
    Ok(outcome)
}

/// Returns the cache key of a request and the moment to look it up, if its response is worth caching: it will
/// be compressed, or path and query have at least `length` bytes.
fn cacheable<'p>(
    http: &HttpState,
    cx: &Context,
    parts: &'p Parts,
    heads: &RequestHeaders<'_>,
    length: usize,
) -> Option<(&'p str, Moment)> {
    let request = parts.uri.path_and_query()?.as_str();
    let compressed = preference(heads.accept_encoding) != Preference::Identity;
    let at = Moment {
        now: cx.now,
        generation: http.services.schedule.generation(),
    };
    (compressed || request.len() >= length).then_some((request, at))
}

/// Runs the part of a request that has to wait for its body or its handler.
async fn run_async(
    http: Arc<HttpState>,
    conn_state: Arc<ConnectionState>,
    mut record: RequestRecord,
    parts: Parts,
    body: Incoming,
    step: Step,
) -> Answered {
    let deadline = record
        .route
        .map_or(Duration::MAX, |(_, route)| route.lane.deadline());
    let answer = match step {
        Step::Answered(answer) => {
            drain_refused(&mut record, &parts, body).await;
            answer
        }
        Step::Waiting(future) => with_deadline(&http, deadline, future).await,
        Step::Read(entry) => match read_body(&mut record, body, &entry).await {
            Ok(payload) => {
                let heads = RequestHeaders::read(&parts.headers, &http.names);
                let outcome = catch_unwind(AssertUnwindSafe(|| {
                    run_handler(&http, &mut record, &parts, &heads, entry, payload)
                }));
                match outcome.unwrap_or_else(|_| Err(panicked(&http))) {
                    Ok(Outcome::Now(answer)) => answer,
                    Ok(Outcome::Later(future)) => with_deadline(&http, deadline, future).await,
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        },
    };
    let heads = RequestHeaders::read(&parts.headers, &http.names);
    build_response(&http, &conn_state, record, &heads, answer)
}

/// Drains the body of a request that was refused before its body was read. Otherwise the client, still
/// sending, would see a reset instead of the response.
async fn drain_refused(record: &mut RequestRecord, parts: &Parts, mut body: Incoming) {
    // A client that sent `Expect: 100-continue` waits with its body; polling the body would ask for it.
    if !parts.headers.contains_key(http::header::EXPECT) {
        drain(&mut body).await;
    }
    record.close |= !body.is_end_stream();
}

/// Reads the body as the route requires: whole, unpacked or streamed.
async fn read_body(
    record: &mut RequestRecord,
    body: Incoming,
    entry: &Entry,
) -> Result<Payload, ApiError> {
    let limit = entry.route.body.limit();
    let mut stream = BodyStream::new(body, limit);
    if matches!(entry.route.body, BodyRule::Streamed(_)) {
        return Ok(Payload::Streamed(stream));
    }
    let whole = match stream.whole().await {
        Ok(whole) => whole,
        Err(error) => {
            stream.drain().await;
            // The rest of the body was not read, so the start of the next request cannot be found.
            record.close = true;
            return Err(error);
        }
    };
    Ok(Payload::Whole(match (entry.route.body, entry.coding) {
        (BodyRule::Ignored, _) => Bytes::new(),
        (_, Coding::Identity) => whole,
        (_, Coding::Gzip) => gunzip(&whole, limit)?,
    }))
}

/// Runs a handler within its deadline. A panic ends only this request.
async fn with_deadline(
    http: &HttpState,
    deadline: Duration,
    future: Pin<Box<dyn Future<Output = Answer> + Send>>,
) -> Answer {
    match timeout(deadline, catch_panic(future)).await {
        Ok(Some(answer)) => answer,
        Ok(None) => Err(panicked(http)),
        Err(_) => Err(ApiError::new(
            ErrorCode::DeadlineExceeded,
            "the response was not ready in time; try again shortly",
        )),
    }
}

/// Returns the output of the future, or `None` if it panics.
async fn catch_panic<T>(mut future: Pin<Box<dyn Future<Output = T> + Send>>) -> Option<T> {
    poll_fn(|cx| {
        let step = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)));
        step.map_or(Poll::Ready(None), |poll| poll.map(Some))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panicking_future_yields_none() {
        assert_eq!(catch_panic(Box::pin(async { 1 })).await, Some(1));
        let later = async {
            tokio::task::yield_now().await;
            panic!("on purpose");
        };
        assert_eq!(catch_panic::<()>(Box::pin(later)).await, None);
    }
}
