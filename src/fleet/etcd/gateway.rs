//! Calls of etcd's JSON gateway: endpoints, connections, log-in, and the meaning of errors.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use data_encoding::BASE64;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};

use crate::ports::http_client::{KeptConnection, RequestTarget, cause};
use crate::store::replication::SharedLogError;

/// Maximum size of a response. The largest one is a read of entries in base64.
const RESPONSE_MAX: usize = 32 * 1024 * 1024;

/// gRPC status codes of calls without an effect.
const INVALID_ARGUMENT: u64 = 3;
/// A lease that has expired.
const NOT_FOUND: u64 = 5;
const PERMISSION_DENIED: u64 = 7;
/// The quota is full, or too many requests are waiting.
const RESOURCE_EXHAUSTED: u64 = 8;
/// A log-in while authentication is disabled.
const FAILED_PRECONDITION: u64 = 9;
const UNAUTHENTICATED: u64 = 16;

#[derive(Clone)]
pub struct EtcdSettings {
    pub endpoints: Vec<String>,
    /// CA certificates in PEM; by default those of the operating system.
    pub ca: Option<Vec<u8>>,
    pub login: Option<(String, String)>,
    /// Timeout of one call over all endpoints that are tried.
    pub timeout: Duration,
    pub errors: Arc<AtomicU64>,
    /// Index of the endpoint in use. All connections of a process share it: when a machine fails, only one of them waits
    /// for a timeout.
    pub endpoint: Arc<AtomicUsize>,
}

/// Whether a call may be sent again after its answer was lost.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    Safe,
    /// A second call could see the effect of the first one and fail.
    Never,
}

pub(super) struct Gateway {
    endpoints: Vec<RequestTarget>,
    current: usize,
    shared: Arc<AtomicUsize>,
    connection: Option<KeptConnection<Full<Bytes>>>,
    login: Option<(String, String)>,
    token: Option<HeaderValue>,
    timeout: Duration,
    errors: Arc<AtomicU64>,
    runtime: Handle,
}

enum CallError {
    NotSent(String),
    NoAnswer(String),
    Answer(u64, String),
}

impl Gateway {
    pub(super) fn new(settings: &EtcdSettings, runtime: Handle) -> Result<Self, SharedLogError> {
        let refused = |why: String| SharedLogError::Refused(why);
        let endpoints = settings.endpoints.iter().map(|url| {
            RequestTarget::parse_trusting(url, settings.ca.as_deref())
                .map_err(|error| refused(format!("endpoint {url} {error}")))
        });
        let endpoints = endpoints.collect::<Result<Vec<_>, _>>()?;
        if endpoints.is_empty() {
            return Err(refused("no endpoint is given".to_owned()));
        }
        Ok(Self {
            endpoints,
            current: 0,
            shared: Arc::clone(&settings.endpoint),
            connection: None,
            login: settings.login.clone(),
            token: None,
            timeout: settings.timeout,
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
        let done = runtime.block_on(self.call_until(path, body, repeat, until));
        if done.is_err() {
            self.errors.fetch_add(1, Ordering::Relaxed);
        }
        done
    }

    /// Sends a call whose answer is a stream, and waits for a part that `is_awaited` accepts, or for the timeout.
    pub(super) fn wait_for(
        &mut self,
        path: &'static str,
        body: &Value,
        wait: Duration,
        is_awaited: impl Fn(&str) -> bool,
    ) {
        let runtime = self.runtime.clone();
        let until = Instant::now() + wait;
        self.use_shared_endpoint();
        let waiting = async {
            // The stream has a separate connection, since a stream that is cancelled ends its connection.
            let mut connection = self.endpoint()?.connect().await.ok()?;
            let request = self.request(path, body)?;
            let mut stream = connection.send(request).await.ok()?.into_body();
            let mut line = Vec::new();
            while let Some(frame) = stream.frame().await {
                line.extend_from_slice(frame.ok()?.data_ref()?);
                if line.len() > RESPONSE_MAX || is_awaited(&String::from_utf8_lossy(&line)) {
                    break;
                }
            }
            Some(())
        };
        // The result does not matter: the caller reads again, and the watch only saves reads in between.
        let _ = runtime.block_on(async { timeout_at(until, waiting).await });
    }

    async fn call_until(
        &mut self,
        path: &'static str,
        body: &Value,
        repeat: Repeat,
        until: Instant,
    ) -> Result<Value, SharedLogError> {
        let mut why = "no endpoint answered in time".to_owned();
        // Each endpoint is tried once. One more attempt covers an idle connection that was closed or an old log-in.
        for _ in 0..=self.endpoints.len() {
            let attempt = timeout_at(until, self.attempt(path, body)).await;
            let error = match attempt {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => error,
                Err(_) => CallError::NoAnswer(why.clone()),
            };
            match error {
                // The token has expired, or users were changed. The call had no effect.
                CallError::Answer(code, message)
                    if self.token.is_some()
                        && (code == UNAUTHENTICATED || message.contains("auth store is old")) =>
                {
                    self.token = None;
                    continue;
                }
                CallError::Answer(
                    code @ (INVALID_ARGUMENT | NOT_FOUND | PERMISSION_DENIED | RESOURCE_EXHAUSTED
                    | FAILED_PRECONDITION | UNAUTHENTICATED),
                    message,
                ) => return Err(SharedLogError::Refused(format!("{message} (code {code})"))),
                CallError::Answer(_, message) | CallError::NoAnswer(message) => {
                    why = message;
                    // The call may have had an effect, so the caller must find out before it repeats the call.
                    if repeat == Repeat::Never {
                        self.give_up_endpoint();
                        return Err(SharedLogError::Unknown(why));
                    }
                }
                // Nothing was sent, so even a call that must not be repeated can go to another endpoint.
                CallError::NotSent(message) => why = message,
            }
            self.give_up_endpoint();
            if Instant::now() >= until {
                break;
            }
        }
        Err(SharedLogError::Unknown(why))
    }

    pub(super) fn give_up_endpoint(&mut self) {
        self.connection = None;
        let next = (self.current + 1) % self.endpoints.len();
        // The next call uses another endpoint, unless another connection has changed the endpoint already.
        let _ =
            self.shared
                .compare_exchange(self.current, next, Ordering::AcqRel, Ordering::Acquire);
    }

    fn use_shared_endpoint(&mut self) {
        let shared = self.shared.load(Ordering::Acquire) % self.endpoints.len();
        if self.current != shared {
            self.connection = None;
            self.current = shared;
        }
    }

    async fn attempt(&mut self, path: &'static str, body: &Value) -> Result<Value, CallError> {
        if self.token.is_none()
            && let Some((name, password)) = self.login.clone()
        {
            let login = json!({ "name": name, "password": password });
            let answer = self.exchange("/v3/auth/authenticate", &login).await?;
            let token = answer.get("token").and_then(Value::as_str);
            self.token = token.and_then(|token| HeaderValue::from_str(token).ok());
        }
        self.exchange(path, body).await
    }

    async fn exchange(&mut self, path: &'static str, body: &Value) -> Result<Value, CallError> {
        let not_sent = || CallError::NotSent("no endpoint is given".to_owned());
        self.use_shared_endpoint();
        let request = self.request(path, body).ok_or_else(not_sent)?;
        // The connection is put back only after a whole answer: the answer of a cancelled call is still to come on it.
        let mut connection = match self.connection.take().filter(|kept| !kept.is_closed()) {
            Some(kept) => kept,
            None => (self.endpoint().ok_or_else(not_sent)?.connect().await)
                .map_err(|error| CallError::NotSent(cause(&*error)))?,
        };
        let no_answer =
            |error: &(dyn std::error::Error + 'static)| CallError::NoAnswer(cause(error));
        let response = connection.send(request).await;
        let (head, incoming) = response.map_err(|error| no_answer(&error))?.into_parts();
        let whole = Limited::new(incoming, RESPONSE_MAX).collect().await;
        let whole = whole.map_err(|error| no_answer(&*error))?.to_bytes();
        let answer: Value = serde_json::from_slice(&whole)
            .map_err(|_| CallError::NoAnswer("an answer is not JSON".to_owned()))?;
        if head.status == StatusCode::OK {
            self.connection = Some(connection);
            return Ok(answer);
        }
        let code = answer.get("code").and_then(Value::as_u64);
        let message = answer.get("error").and_then(Value::as_str);
        let message = message.unwrap_or_else(|| head.status.as_str()).to_owned();
        Err(CallError::Answer(code.unwrap_or_default(), message))
    }

    fn endpoint(&self) -> Option<&RequestTarget> {
        self.endpoints.get(self.current)
    }

    fn request(&self, path: &'static str, body: &Value) -> Option<http::Request<Full<Bytes>>> {
        let mut request = self
            .endpoint()?
            .request(Method::POST)
            .uri(path)
            .header(CONTENT_TYPE, "application/json");
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token.clone());
        }
        request.body(Full::from(body.to_string())).ok()
    }
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
