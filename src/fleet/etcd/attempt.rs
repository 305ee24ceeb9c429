//! One attempt of a call: a request at one endpoint, and its answer.

use std::sync::Arc;
use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::gateway::RESPONSE_MAX;
use super::login::Login;
use crate::ports::http_client::{KeptConnection, RequestTarget, cause};

/// Time for a connection with its handshake. A packet that is lost is sent again after a second, which another endpoint
/// does not wait for.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) type Connection = KeptConnection<Full<Bytes>>;

/// An attempt owns its connection: the answer of an attempt that is given up may still come on it.
pub(super) struct Attempt {
    /// Index of the endpoint.
    pub(super) endpoint: usize,
    pub(super) target: Arc<RequestTarget>,
    /// An open connection; `None` makes a new one.
    pub(super) connection: Option<Connection>,
    pub(super) login: Option<Arc<Login>>,
    pub(super) token: Option<HeaderValue>,
    pub(super) path: &'static str,
    pub(super) body: Bytes,
}

pub(super) struct Outcome {
    pub(super) endpoint: usize,
    /// Present after a whole answer.
    pub(super) connection: Option<Connection>,
    pub(super) token: Option<HeaderValue>,
    pub(super) took: Duration,
    pub(super) result: Result<Value, CallError>,
}

pub(super) enum CallError {
    NotSent(String),
    NoAnswer(String),
    /// gRPC status code and message.
    Answer(u64, String),
}

impl Attempt {
    pub(super) async fn run(mut self) -> Outcome {
        let began = Instant::now();
        let result = self.answer().await;
        Outcome {
            endpoint: self.endpoint,
            connection: self.connection,
            token: self.token,
            took: began.elapsed(),
            result,
        }
    }

    async fn answer(&mut self) -> Result<Value, CallError> {
        if let Some(login) = &self.login {
            self.token = Some(login.at(self.endpoint, &self.target).await?);
        }
        self.exchange(self.path, self.body.clone()).await
    }

    pub(super) async fn exchange(
        &mut self,
        path: &'static str,
        body: Bytes,
    ) -> Result<Value, CallError> {
        let request = request(&self.target, path, self.token.as_ref(), body);
        let request = request.map_err(|error| CallError::NotSent(error.to_string()))?;
        let mut connection = match self.connection.take().filter(|kept| !kept.is_closed()) {
            Some(kept) => kept,
            None => connect(&self.target).await.map_err(CallError::NotSent)?,
        };
        let no_answer =
            |error: &(dyn std::error::Error + 'static)| CallError::NoAnswer(cause(error));
        let response = connection.send(request).await;
        let (head, incoming) = response.map_err(|error| no_answer(&error))?.into_parts();
        let whole = Limited::new(incoming, RESPONSE_MAX).collect().await;
        let whole = whole.map_err(|error| no_answer(&*error))?.to_bytes();
        let answer: Value = serde_json::from_slice(&whole)
            .map_err(|_| CallError::NoAnswer(not_json(head.status, &whole)))?;
        self.connection = Some(connection);
        if head.status == StatusCode::OK {
            return Ok(answer);
        }
        let code = answer.get("code").and_then(Value::as_u64);
        let message = answer.get("error").and_then(Value::as_str);
        let message = message.unwrap_or_else(|| head.status.as_str()).to_owned();
        Err(CallError::Answer(code.unwrap_or_default(), message))
    }
}

/// Shows the start of an answer, such as that to a client certificate with a common name.
fn not_json(status: StatusCode, answer: &[u8]) -> String {
    let text = String::from_utf8_lossy(answer);
    let start: String = text.trim().chars().take(120).collect();
    format!("an answer is not JSON: {} {start:?}", status.as_u16())
}

/// Connects, or returns why not.
pub(super) async fn connect(target: &RequestTarget) -> Result<Connection, String> {
    match timeout(CONNECT_TIMEOUT, target.connect()).await {
        Ok(connected) => connected.map_err(|error| cause(&*error)),
        Err(_) => Err("no connection in time".to_owned()),
    }
}

pub(super) fn request(
    target: &RequestTarget,
    path: &'static str,
    token: Option<&HeaderValue>,
    body: Bytes,
) -> http::Result<http::Request<Full<Bytes>>> {
    let mut request = target
        .request(Method::POST)
        .uri(path)
        .header(CONTENT_TYPE, "application/json");
    if let Some(token) = token {
        request = request.header(AUTHORIZATION, token.clone());
    }
    request.body(Full::from(body))
}
