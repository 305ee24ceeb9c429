//! One request: id, order of checks, deadline, panic barrier, answer, count, log.
//!
//! The order is that of the decisions: framing, path (404), method (405), partner (401), user (401),
//! rate (429), size (413), coding (415), syntax and parameters (400), then the resource. What memory
//! answers is answered without a future of its own: that is most of what a second brings.

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

use super::api::schedule::cached_reply;
use super::audit::{AuditDraft, recorded};
use super::auth::{Administrator, Credentials, PARTNER_LIMIT, Proof, prove};
use super::body::{BodyStream, Coding, check, drain, gunzip};
use super::client_addr;
use super::connection_state::ConnectionState;
use super::content_encoding::{Preference, preference};
use super::context::Context;
use super::cors;
use super::dispatch::{Answer, Outcome, dispatch};
use super::endpoint::{Endpoint, Input, Payload};
use super::error::{ApiError, ErrorCode};
use super::fair_queue::Turn;
use super::head_validation::{check_answers_for, check_framing};
use super::headers::RequestHeaders;
use super::path_validation::check_path;
use super::query::Query;
use super::respond::{RequestRecord, finish};
use super::response_body::{InFlightGuard, ResponseBody};
use super::response_cache::Moment;
use super::route::{BodyRule, RateClass, Route};
use super::router::{Params, RouteMatch, RouteSet};
use crate::app::App;
use crate::types::{Country, LimitReached};

/// What answers the requests of one connection.
pub struct Service {
    /// The service as a whole.
    pub app: Arc<App>,
    /// The routes that the listener serves.
    pub table: RouteSet,
    /// Who asks, where this is the local administration socket.
    pub local: Option<Administrator>,
    /// The other end.
    pub peer: IpAddr,
    /// What the connection's task watches.
    pub pulse: Arc<ConnectionState>,
}

/// A request that may go on to its parameters.
struct Entry {
    proof: Proof,
    params: Params,
    cx: Context,
    route: &'static Route,
    coding: Coding,
}

/// How far a request came without waiting.
enum Step {
    Answered(Answer),
    /// Its body is to be read first.
    Read(Entry),
    Waiting(Pin<Box<dyn Future<Output = Answer> + Send>>),
}

type Answered = Response<ResponseBody>;

/// The answer to a request.
pub enum ResponseFuture {
    /// It is there; `None` once taken.
    Ready(Option<Answered>),
    /// It is being made.
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
        let fragment = self.pulse.begin();
        let (parts, body) = request.into_parts();
        let app = &self.app;
        let heads = RequestHeaders::read(&parts.headers, &app.front.names);
        let mut flow = RequestRecord::new(app, self.table, &parts, &heads);
        let step = catch_unwind(AssertUnwindSafe(|| {
            self.start(&mut flow, &parts, &heads, &body, fragment)
        }));
        let step = step.unwrap_or_else(|_| Step::Answered(Err(panicked(app))));
        match step {
            Step::Answered(answer) if body.is_end_stream() => {
                ResponseFuture::Ready(Some(hand_over(app, &self.pulse, flow, &heads, answer)))
            }
            step @ (Step::Answered(_) | Step::Read(_) | Step::Waiting(_)) => {
                ResponseFuture::Later(Box::pin(run_async(
                    Arc::clone(app),
                    Arc::clone(&self.pulse),
                    flow,
                    parts,
                    body,
                    step,
                )))
            }
        }
    }
}

/// Makes the response, and tells the connection's task that the request has ended, now or when its
/// stream has.
fn hand_over(
    app: &App,
    pulse: &Arc<ConnectionState>,
    mut flow: RequestRecord,
    heads: &RequestHeaders<'_>,
    answer: Answer,
) -> Answered {
    flow.close |= pulse.is_lame_duck();
    let mut answer = finish(app, flow, heads, answer);
    match answer.body_mut() {
        ResponseBody::Stream(_, busy) => *busy = Some(InFlightGuard::new(Arc::clone(pulse))),
        ResponseBody::Empty | ResponseBody::Full(_) => pulse.end(),
    }
    answer
}

fn panicked(app: &App) -> ApiError {
    app.front.metrics.panics.one();
    ApiError::internal("the handler panicked")
}

impl Service {
    fn start(
        &self,
        flow: &mut RequestRecord,
        parts: &Parts,
        heads: &RequestHeaders<'_>,
        body: &Incoming,
        fragment: bool,
    ) -> Step {
        match self.authorize(flow, parts, heads, body, fragment) {
            Err(error) => Step::Answered(Err(error)),
            Ok(Entered::Options(reply)) => Step::Answered(Ok(reply)),
            Ok(Entered::Go(entry)) => {
                let streamed = matches!(entry.route.body, BodyRule::Streamed(_));
                if !body.is_end_stream() || streamed {
                    return Step::Read(entry);
                }
                match run_handler(
                    &self.app,
                    flow,
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

    /// Everything before the body.
    fn authorize(
        &self,
        flow: &mut RequestRecord,
        parts: &Parts,
        heads: &RequestHeaders<'_>,
        body: &Incoming,
        fragment: bool,
    ) -> Result<Entered, ApiError> {
        let app = &*self.app;
        if let Err(error) = check_framing(parts, heads, fragment) {
            flow.close = true;
            return Err(error);
        }
        // The local administration socket has no host: who reaches it has the rights to.
        if self.table == RouteSet::Ops && self.local.is_none() {
            check_answers_for(parts, heads, &app.http.ops_hosts)?;
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
        flow.route = Some((index, route));
        let now = app.clock.now();
        let query = Query::new(parts.uri.query().unwrap_or_default());
        let credentials = Credentials {
            heads,
            query,
            names: &app.front.names,
            local: self.local,
        };
        let proof = prove(&*app.gate, route, &credentials, now)?;
        flow.user = proof.user();
        let peer = client_addr::client(self.peer, &parts.headers, &app.http.trusted_proxies);
        flow.turn = Turn::for_client(proof.partner(), peer);
        app.gate
            .admit(route.rate, proof.partner(), peer, now)
            .map_err(|limit| too_many(route.rate, limit))?;
        let coding = if body.is_end_stream() {
            Coding::Identity
        } else {
            check(body, heads, route.body)?
        };
        let cx = Context {
            now,
            request_id: flow.id.clone(),
            peer,
            told_country: self.told_country(parts),
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

    /// The country as the proxy tells it, if the peer is a trusted one.
    fn told_country(&self, parts: &Parts) -> Option<Country> {
        let name = self.app.front.geo_header.as_ref()?;
        let proxies = &self.app.http.trusted_proxies;
        proxies
            .iter()
            .any(|network| network.contains(self.peer))
            .then_some(())?;
        Country::parse(parts.headers.get(name)?.to_str().ok()?).ok()
    }
}

enum Entered {
    Options(super::reply::Reply),
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

/// Reads the parameters and calls the handler.
fn run_handler(
    app: &Arc<App>,
    flow: &mut RequestRecord,
    parts: &Parts,
    heads: &RequestHeaders<'_>,
    entry: Entry,
    payload: Payload,
) -> Result<Outcome, ApiError> {
    let cacheable = entry
        .route
        .cached_from
        .and_then(|length| cacheable(app, &entry.cx, parts, heads, length));
    if let Some((request, at)) = cacheable
        && let Some(response) = app.front.responses.find_by_text(request, at)
    {
        return Ok(Outcome::Now(Ok(cached_reply(app, &entry.cx, response))));
    }
    let input = Input {
        path: parts.uri.path(),
        params: entry.params,
        query: Query::new(parts.uri.query().unwrap_or_default()),
        heads,
        names: &app.front.names,
        password_min: usize::try_from(app.config.accounts.password_min).unwrap_or(0),
    };
    let asked = match entry.proof {
        Proof::Operator(auth, _) => {
            AuditDraft::new(auth, entry.route, &input, parts.uri.query(), heads)
        }
        Proof::Open(_) | Proof::Partner(..) | Proof::User(..) => None,
    };
    let endpoint = Endpoint::parse(entry.proof, &input, payload)?;
    if entry.route.deprecated.is_some() {
        flow.successor = endpoint.successor();
    }
    if let Some(asked) = asked {
        let recorded = recorded(Arc::clone(app), entry.cx, asked, endpoint);
        return Ok(Outcome::Later(Box::pin(recorded)));
    }
    let Some(((request, at), meaning)) = cacheable.zip(endpoint.cache_key()) else {
        return Ok(dispatch(app, entry.cx, endpoint));
    };
    let responses = &app.front.responses;
    if let Some(response) = responses.find_by_meaning(&meaning, request, at) {
        return Ok(Outcome::Now(Ok(cached_reply(app, &entry.cx, response))));
    }
    let outcome = dispatch(app, entry.cx, endpoint);
    if let Outcome::Now(Ok(reply)) = &outcome
        && let Some(response) = reply.cacheable()
    {
        responses.insert(&meaning, request, response, at);
    }
    Ok(outcome)
}

/// The text of a request whose response is worth caching, and the moment that the response is of: one
/// that will be compressed, or one to a request of at least `length` bytes.
fn cacheable<'p>(
    app: &App,
    cx: &Context,
    parts: &'p Parts,
    heads: &RequestHeaders<'_>,
    length: usize,
) -> Option<(&'p str, Moment)> {
    let request = parts.uri.path_and_query()?.as_str();
    let compressed = preference(heads.accept_encoding) != Preference::Identity;
    let at = Moment {
        now: cx.now,
        generation: app.schedule.generation(),
    };
    (compressed || request.len() >= length).then_some((request, at))
}

/// The part of a request that waits: for its body, for its handler.
async fn run_async(
    app: Arc<App>,
    pulse: Arc<ConnectionState>,
    mut flow: RequestRecord,
    parts: Parts,
    body: Incoming,
    step: Step,
) -> Answered {
    let deadline = flow
        .route
        .map_or(Duration::MAX, |(_, route)| route.lane.deadline());
    let answer = match step {
        Step::Answered(answer) => {
            refuse(&mut flow, &parts, body).await;
            answer
        }
        Step::Waiting(future) => with_deadline(&app, deadline, future).await,
        Step::Read(entry) => match read(&mut flow, body, &entry).await {
            Ok(payload) => {
                let heads = RequestHeaders::read(&parts.headers, &app.front.names);
                let outcome = catch_unwind(AssertUnwindSafe(|| {
                    run_handler(&app, &mut flow, &parts, &heads, entry, payload)
                }));
                match outcome.unwrap_or_else(|_| Err(panicked(&app))) {
                    Ok(Outcome::Now(answer)) => answer,
                    Ok(Outcome::Later(future)) => with_deadline(&app, deadline, future).await,
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        },
    };
    let heads = RequestHeaders::read(&parts.headers, &app.front.names);
    hand_over(&app, &pulse, flow, &heads, answer)
}

/// Lets a client that sends a body without being asked read its refusal.
async fn refuse(flow: &mut RequestRecord, parts: &Parts, mut body: Incoming) {
    // Who waits for `100 Continue` sends nothing; asking for the body would tell them to.
    if !parts.headers.contains_key(http::header::EXPECT) {
        drain(&mut body).await;
    }
    flow.close |= !body.is_end_stream();
}

/// The body as the route takes it.
async fn read(
    flow: &mut RequestRecord,
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
            // The next request cannot be found behind a body that was not read to its end.
            flow.close = true;
            return Err(error);
        }
    };
    Ok(Payload::Whole(match (entry.route.body, entry.coding) {
        (BodyRule::Ignored, _) => Bytes::new(),
        (_, Coding::Identity) => whole,
        (_, Coding::Gzip) => gunzip(&whole, limit)?,
    }))
}

/// Runs a handler within its deadline; a panic ends the request and nothing else.
async fn with_deadline(
    app: &App,
    deadline: Duration,
    future: Pin<Box<dyn Future<Output = Answer> + Send>>,
) -> Answer {
    match timeout(deadline, catch_panic(future)).await {
        Ok(Some(answer)) => answer,
        Ok(None) => Err(panicked(app)),
        Err(_) => Err(ApiError::new(
            ErrorCode::DeadlineExceeded,
            "the answer was not ready in time",
        )),
    }
}

/// The future's output; `None` if it panics.
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
    async fn a_panic_is_caught_where_it_happens() {
        assert_eq!(catch_panic(Box::pin(async { 1 })).await, Some(1));
        let later = async {
            tokio::task::yield_now().await;
            panic!("on purpose");
        };
        assert_eq!(catch_panic::<()>(Box::pin(later)).await, None);
    }
}
