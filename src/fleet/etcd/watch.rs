//! A watch of the keys that change when a member has something to do, so that an idle member need not read them all the
//! time.
//!
//! A watch only tells that it is time to read. It may end, or stay silent for ever while its connection or its etcd hangs,
//! so its user also reads without it from time to time.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use http_body_util::BodyExt as _;
use hyper::body::{Bytes, Incoming};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::attempt::Attempt;
use super::exchange::{CallError, Connection, RESPONSE_MAX, connect, request};
use super::gateway::{EtcdSettings, decode, encode, targets};
use super::login::Login;
use super::prefix;
use playgate_ports::RequestTarget;
use playgate_store::replication::{FleetId, SharedLogError};

/// Time for log-in and the first answer.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(2);
/// Lets etcd end a watch when the endpoint has lost its leader.
const REQUIRE_LEADER: &str = "grpc-metadata-hasleader";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchEvent {
    /// From now on, every change is told.
    Ready,
    /// The log has new entries.
    Head,
    /// A claim began or ended.
    Owner,
}

pub struct EtcdWatch {
    targets: Vec<Arc<RequestTarget>>,
    login: Option<Arc<Login>>,
    head: String,
    owner: String,
    /// Number of the next attempt, which chooses the endpoint.
    next: usize,
}

impl EtcdWatch {
    /// Does not connect.
    pub fn new(settings: &EtcdSettings, fleet: FleetId) -> Result<Self, SharedLogError> {
        let prefix = prefix(&fleet);
        Ok(Self {
            targets: targets(settings)?,
            login: settings.login.clone(),
            head: format!("{prefix}head"),
            owner: format!("{prefix}owner"),
            next: 0,
        })
    }

    /// Watches at one endpoint, and at another one with each call. Returns why the watch has ended.
    pub async fn run(&mut self, on: impl Fn(WatchEvent) + Send) -> String {
        let endpoint = self.next % self.targets.len();
        let target = self.targets.get(endpoint).map(Arc::clone);
        self.next += 1;
        let Some(target) = target else {
            return "no endpoint is given".to_owned();
        };
        let begun = timeout(BEGIN_TIMEOUT, self.begin(endpoint, target));
        match begun.await {
            Ok(Ok(stream)) => self.follow(stream, on).await.unwrap_or_else(|ended| ended),
            Ok(Err(why)) => why,
            Err(_) => "no answer in time".to_owned(),
        }
    }

    async fn begin(&self, endpoint: usize, target: Arc<RequestTarget>) -> Result<Stream, String> {
        let token = self.log_in(endpoint, &target).await?;
        // Two messages on one stream.
        let body = [&self.head, &self.owner]
            .map(|key| json!({ "create_request": { "key": encode(key.as_bytes()) } }).to_string())
            .concat();
        let request = request(&target, "/v3/watch", token.as_ref(), Bytes::from(body));
        let mut request = request.map_err(|error| error.to_string())?;
        let leader = HeaderValue::from_static("true");
        request.headers_mut().insert(REQUIRE_LEADER, leader);
        // A connection of its own, since the stream ends only with it.
        let mut connection = connect(&target).await?;
        let response = connection.send(request).await;
        let body = response.map_err(|error| error.to_string())?.into_body();
        let mut stream = Stream {
            body,
            rest: Vec::new(),
            _connection: connection,
        };
        let mut created = 0;
        while created < 2 {
            let message = stream.next().await?;
            created += usize::from(is_set(&message, "created"));
        }
        Ok(stream)
    }

    async fn follow(
        &self,
        mut stream: Stream,
        on: impl Fn(WatchEvent) + Send,
    ) -> Result<String, String> {
        on(WatchEvent::Ready);
        loop {
            let message = stream.next().await?;
            if is_set(&message, "canceled") {
                return Ok("etcd has cancelled the watch".to_owned());
            }
            let events = message.pointer("/result/events").and_then(Value::as_array);
            for event in events.into_iter().flatten() {
                let key = decode(event.pointer("/kv/key"));
                if key == self.head.as_bytes() {
                    on(WatchEvent::Head);
                } else if key == self.owner.as_bytes() {
                    on(WatchEvent::Owner);
                }
            }
        }
    }

    async fn log_in(
        &self,
        endpoint: usize,
        target: &Arc<RequestTarget>,
    ) -> Result<Option<HeaderValue>, String> {
        let Some(login) = &self.login else {
            return Ok(None);
        };
        let attempt = Attempt {
            endpoint,
            target: Arc::clone(target),
            connection: None,
            login: Some(Arc::clone(login)),
            token: None,
            path: "/v3/maintenance/status",
            body: Bytes::from_static(b"{}"),
        };
        let outcome = attempt.run().await;
        match outcome.result {
            Ok(_) => Ok(outcome.token),
            Err(CallError::NotSent(why) | CallError::NoAnswer(why) | CallError::Answer(_, why)) => {
                Err(why)
            }
        }
    }
}

/// The messages of a stream: each is one line of JSON.
struct Stream {
    body: Incoming,
    /// What has arrived of the next messages.
    rest: Vec<u8>,
    _connection: Connection,
}

impl Stream {
    async fn next(&mut self) -> Result<Value, String> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                let message: Value = serde_json::from_slice(&line)
                    .map_err(|_| "an answer is not JSON".to_owned())?;
                return match message.get("error") {
                    Some(error) => Err(error.to_string()),
                    None => Ok(message),
                };
            }
            let frame = self.body.frame().await.ok_or("the stream has ended")?;
            let frame = frame.map_err(|error| error.to_string())?;
            if let Some(part) = frame.data_ref() {
                self.rest.extend_from_slice(part);
            }
            if self.rest.len() > RESPONSE_MAX {
                return Err("an answer is too long".to_owned());
            }
        }
    }
}

fn is_set(message: &Value, name: &str) -> bool {
    let result = message.get("result").and_then(|result| result.get(name));
    result.and_then(Value::as_bool) == Some(true)
}
