//! Calls of etcd's JSON gateway: endpoints, connections, log-in, and the meaning of errors.
//!
//! Each caller has a connection of its own to one endpoint, and keeps it as long as it answers. If an answer is late, the
//! call is also sent to another endpoint, and the first answer counts: an endpoint that is dead, cut off or slow costs a
//! fraction of a second and not a time-out. Other callers are not affected, since the same endpoint may answer them.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use data_encoding::BASE64;
use hyper::body::Bytes;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};

use super::attempt::{Attempt, Outcome};
use super::exchange::{CallError, Connection};
use super::login::Login;
use playgate_ports::RequestTarget;
use playgate_ports::client_tls::ClientTls;
use playgate_store::replication::SharedLogError;

/// Bounds of the time after which an answer is late. Other endpoints wait for the same disks, so that asking them earlier
/// would only add to their load.
const PATIENCE_MIN: Duration = Duration::from_millis(150);
const PATIENCE_MAX: Duration = Duration::from_millis(600);
/// An answer is late after this many times the usual time.
const LATE: u32 = 4;

/// gRPC status codes of calls without an effect.
const INVALID_ARGUMENT: u64 = 3;
/// A lease that has expired.
const NOT_FOUND: u64 = 5;
const PERMISSION_DENIED: u64 = 7;
/// The quota is full, or too many requests are waiting.
const RESOURCE_EXHAUSTED: u64 = 8;
/// A log-in while authentication is disabled.
const FAILED_PRECONDITION: u64 = 9;
/// A compaction of history that was compacted before.
const OUT_OF_RANGE: u64 = 11;
const UNAUTHENTICATED: u64 = 16;

#[derive(Clone)]
pub struct EtcdSettings {
    pub endpoints: Vec<String>,
    /// By default, the CA certificates of the operating system and no client certificate.
    pub tls: Option<Arc<ClientTls>>,
    pub login: Option<Arc<Login>>,
    /// Timeout of one call over all endpoints that are tried.
    pub timeout: Duration,
    pub errors: Arc<AtomicU64>,
}

/// Whether a call may be sent again while or after its answer is missing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    Safe,
    /// A second call could see the effect of the first one and fail.
    Never,
}

struct Endpoint {
    target: Arc<RequestTarget>,
    /// When an attempt there last failed or was late, unless one has succeeded since.
    failed: Option<Instant>,
}

pub(super) struct Gateway {
    endpoints: Vec<Endpoint>,
    /// The endpoint that has answered last.
    current: usize,
    /// A connection to `current`.
    connection: Option<Connection>,
    login: Option<Arc<Login>>,
    timeout: Duration,
    /// Moving average of the time that a call takes.
    usual: Duration,
    errors: Arc<AtomicU64>,
    runtime: Handle,
}

type Running = (usize, Pin<Box<dyn Future<Output = Outcome> + Send>>);

impl Gateway {
    pub(super) fn new(settings: &EtcdSettings, runtime: Handle) -> Result<Self, SharedLogError> {
        let endpoints = targets(settings)?.into_iter().map(|target| Endpoint {
            target,
            failed: None,
        });
        Ok(Self {
            endpoints: endpoints.collect(),
            current: 0,
            connection: None,
            login: settings.login.clone(),
            timeout: settings.timeout,
            usual: Duration::ZERO,
            errors: Arc::clone(&settings.errors),
            runtime,
        })
    }

    /// Blocks, so it must not be called on a runtime thread.
    pub(super) fn call(
        &mut self,
        path: &'static str,
        body: &Value,
        repeat: Repeat,
    ) -> Result<Value, SharedLogError> {
        let runtime = self.runtime.clone();
        let until = Instant::now() + self.timeout;
        let body = Bytes::from(body.to_string());
        let done = runtime.block_on(self.call_until(path, body, repeat, until));
        if done.is_err() {
            self.errors.fetch_add(1, Ordering::Relaxed);
        }
        done
    }

    async fn call_until(
        &mut self,
        path: &'static str,
        body: Bytes,
        repeat: Repeat,
        until: Instant,
    ) -> Result<Value, SharedLogError> {
        let mut why = "no endpoint answered in time".to_owned();
        // Each endpoint is tried once. One more attempt covers an idle connection that was closed or an old log-in.
        let mut left = self.endpoints.len();
        let mut running = Vec::new();
        self.start(&mut running, self.current, path, &body);
        while Instant::now() < until {
            let may_add = left > 0 && (repeat == Repeat::Safe || running.is_empty());
            let late = match may_add {
                true => until.min(Instant::now() + self.patience()),
                false => until,
            };
            let Ok(outcome) = timeout_at(late, first_of(&mut running)).await else {
                if may_add && late < until {
                    // The last attempt is late; those before it were late earlier.
                    if let Some(endpoint) = running.last().map(|(endpoint, _)| *endpoint) {
                        self.failed(endpoint);
                    }
                    left -= 1;
                    let next = self.next_endpoint(&running);
                    self.start(&mut running, next, path, &body);
                }
                continue;
            };
            let Some(outcome) = outcome else {
                break;
            };
            let endpoint = outcome.endpoint;
            let error = match outcome.result {
                Ok(answer) => {
                    self.use_endpoint(endpoint, outcome.connection, outcome.took);
                    return Ok(answer);
                }
                Err(error) => error,
            };
            let mut next = None;
            match error {
                // The token has expired, or users were changed. The call had no effect.
                CallError::Answer(code, message)
                    if outcome.token.is_some()
                        && (code == UNAUTHENTICATED || message.contains("auth store is old")) =>
                {
                    if let (Some(login), Some(token)) = (&self.login, &outcome.token) {
                        login.forget(token);
                    }
                    why = message;
                    next = Some(endpoint);
                }
                CallError::Answer(
                    code @ (INVALID_ARGUMENT | NOT_FOUND | PERMISSION_DENIED | RESOURCE_EXHAUSTED
                    | FAILED_PRECONDITION | OUT_OF_RANGE | UNAUTHENTICATED),
                    message,
                ) => return Err(SharedLogError::Refused(format!("{message} (code {code})"))),
                CallError::Answer(_, message) | CallError::NoAnswer(message) => {
                    why = message;
                    self.failed(endpoint);
                    // The call may have had an effect, so the caller must find out before it repeats the call.
                    if repeat == Repeat::Never {
                        break;
                    }
                }
                // Nothing was sent, so even a call that must not be repeated can go to another endpoint.
                CallError::NotSent(message) => {
                    why = message;
                    self.failed(endpoint);
                }
            }
            if left > 0 {
                left -= 1;
                let next = next.unwrap_or_else(|| self.next_endpoint(&running));
                self.start(&mut running, next, path, &body);
            }
        }
        // The connections of the attempts end with them. The next call begins where the least is known against it.
        self.current = self.next_endpoint(&[]);
        self.connection = None;
        Err(SharedLogError::Unknown(why))
    }

    fn start(
        &mut self,
        running: &mut Vec<Running>,
        endpoint: usize,
        path: &'static str,
        body: &Bytes,
    ) {
        let Some(target) = self
            .endpoints
            .get(endpoint)
            .map(|one| Arc::clone(&one.target))
        else {
            return;
        };
        let attempt = Attempt {
            endpoint,
            target,
            connection: match endpoint == self.current {
                true => self.connection.take(),
                false => None,
            },
            login: self.login.clone(),
            token: None,
            path,
            body: body.clone(),
        };
        running.push((endpoint, Box::pin(attempt.run())));
    }

    /// Returns the endpoint for one more attempt: one without an attempt, and of these the one whose last failure is the
    /// longest ago.
    fn next_endpoint(&self, running: &[Running]) -> usize {
        let ranked = self.endpoints.iter().enumerate().map(|(at, endpoint)| {
            let attempts = running.iter().filter(|(running, _)| *running == at).count();
            let ahead = self.endpoints.len() + at - self.current;
            (
                (attempts, endpoint.failed, ahead % self.endpoints.len()),
                at,
            )
        });
        ranked.min().map_or(0, |(_, at)| at)
    }

    fn failed(&mut self, endpoint: usize) {
        if let Some(endpoint) = self.endpoints.get_mut(endpoint) {
            endpoint.failed = Some(Instant::now());
        }
    }

    fn use_endpoint(&mut self, endpoint: usize, connection: Option<Connection>, took: Duration) {
        self.current = endpoint;
        self.connection = connection;
        self.usual = (self.usual * 7 + took) / 8;
        if let Some(endpoint) = self.endpoints.get_mut(endpoint) {
            endpoint.failed = None;
        }
    }

    fn patience(&self) -> Duration {
        let late = (self.usual * LATE).clamp(PATIENCE_MIN, PATIENCE_MAX);
        // A short time limit must leave room for three endpoints.
        late.min(self.timeout / 4)
    }

    /// Lets the next call begin at another endpoint.
    pub(super) fn give_up_endpoint(&mut self) {
        self.failed(self.current);
        self.current = self.next_endpoint(&[]);
        self.connection = None;
    }
}

/// Parses the endpoints of the settings.
pub(super) fn targets(settings: &EtcdSettings) -> Result<Vec<Arc<RequestTarget>>, SharedLogError> {
    let refused = |why: String| SharedLogError::Refused(why);
    let targets = settings.endpoints.iter().map(|url| {
        RequestTarget::parse_with(url, settings.tls.as_ref())
            .map(Arc::new)
            .map_err(|error| refused(format!("endpoint {url} {error}")))
    });
    let targets = targets.collect::<Result<Vec<_>, _>>()?;
    match targets.is_empty() {
        true => Err(refused("no endpoint is given".to_owned())),
        false => Ok(targets),
    }
}

/// Waits for the first attempt that ends, and removes it. Returns `None` if there is none.
async fn first_of(running: &mut Vec<Running>) -> Option<Outcome> {
    poll_fn(|context| {
        if running.is_empty() {
            return Poll::Ready(None);
        }
        let ended = running
            .iter_mut()
            .enumerate()
            .find_map(|(at, (_, attempt))| match attempt.as_mut().poll(context) {
                Poll::Ready(outcome) => Some((at, outcome)),
                Poll::Pending => None,
            });
        match ended {
            Some((at, outcome)) => {
                drop(running.remove(at));
                Poll::Ready(Some(outcome))
            }
            None => Poll::Pending,
        }
    })
    .await
}

pub(super) fn encode(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

pub(super) fn decode(value: Option<&Value>) -> Vec<u8> {
    // The gateway omits default values, so an absent member is empty.
    let text = value.and_then(Value::as_str).unwrap_or_default();
    BASE64.decode(text.as_bytes()).unwrap_or_default()
}

pub(super) fn number(value: Option<&Value>) -> u64 {
    match value {
        // The gateway writes 64-bit numbers as strings.
        Some(Value::String(text)) => text.parse().unwrap_or_default(),
        Some(Value::Number(number)) => number.as_u64().unwrap_or_default(),
        _ => 0,
    }
}
