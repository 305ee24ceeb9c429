//! One request to an endpoint of etcd, and its answer.

use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use serde_json::Value;
use tokio::time::timeout;

use playgate_ports::RequestTarget;
use playgate_ports::http_client::{KeptConnection, cause};

/// Maximum size of a response. The largest one is a read of entries in base64.
pub(super) const RESPONSE_MAX: usize = 32 * 1024 * 1024;
/// Time for a connection with its handshake. A packet that is lost is sent again after a second, which another endpoint
/// does not wait for.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) type Connection = KeptConnection<Full<Bytes>>;

pub(super) enum CallError {
    NotSent(String),
    NoAnswer(String),
    /// gRPC status code and message.
    Answer(u64, String),
}

/// Sends a request over the kept connection if it is still open, otherwise over a new one, which is then kept.
pub(super) async fn exchange(
    target: &RequestTarget,
    kept: &mut Option<Connection>,
    token: Option<&HeaderValue>,
    path: &'static str,
    body: Bytes,
) -> Result<Value, CallError> {
    let request = request(target, path, token, body);
    let request = request.map_err(|error| CallError::NotSent(error.to_string()))?;
    let mut connection = match kept.take().filter(|kept| !kept.is_closed()) {
        Some(open) => open,
        None => connect(target).await.map_err(CallError::NotSent)?,
    };
    let no_answer = |error: &(dyn std::error::Error + 'static)| CallError::NoAnswer(cause(error));
    let response = connection.send(request).await;
    let (head, incoming) = response.map_err(|error| no_answer(&error))?.into_parts();
    let whole = Limited::new(incoming, RESPONSE_MAX).collect().await;
    let whole = whole.map_err(|error| no_answer(&*error))?.to_bytes();
    let answer: Value = serde_json::from_slice(&whole)
        .map_err(|_| CallError::NoAnswer(not_json(head.status, &whole)))?;
    *kept = Some(connection);
    if head.status == StatusCode::OK {
        return Ok(answer);
    }
    let code = answer.get("code").and_then(Value::as_u64);
    let message = answer.get("error").and_then(Value::as_str);
    let message = message.unwrap_or_else(|| head.status.as_str()).to_owned();
    Err(CallError::Answer(code.unwrap_or_default(), message))
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
