//! The log-in of etcd, which all connections of a process share: etcd knows the token of one member at all of them.
//!
//! To check a password costs etcd a tenth of a second of processor time, and on a busy machine a second, which is longer than
//! a claim may wait for an answer. A log-in that was given up and begun again by each call would never succeed, and would keep
//! etcd busy. So there is one log-in at a time at each endpoint, and it goes on when the call that began it ends.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use hyper::body::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::exchange::{CallError, exchange};
use playgate_ports::RequestTarget;

/// Far more than etcd needs for a password.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(10);
const AUTHENTICATE: &str = "/v3/auth/authenticate";

pub struct Login {
    name: String,
    password: String,
    token: Mutex<Option<HeaderValue>>,
    /// Held by the log-in at each endpoint.
    turns: Vec<Arc<tokio::sync::Mutex<()>>>,
}

impl Login {
    /// `endpoints`: how many there are.
    pub fn new(name: String, password: String, endpoints: usize) -> Self {
        Self {
            name,
            password,
            token: Mutex::default(),
            turns: (0..endpoints).map(|_| Arc::default()).collect(),
        }
    }

    /// The same name and password for the examination of one endpoint, which must not depend on the others.
    pub(super) fn apart(&self) -> Self {
        Self::new(self.name.clone(), self.password.clone(), 1)
    }

    fn token(&self) -> Option<HeaderValue> {
        self.token.lock().clone()
    }

    /// Drops a token that etcd has refused, unless there is a newer one.
    pub(super) fn forget(&self, refused: &HeaderValue) {
        self.token.lock().take_if(|token| token == refused);
    }

    /// Returns the token, and logs in if there is none.
    pub(super) async fn at(
        self: &Arc<Self>,
        endpoint: usize,
        target: &Arc<RequestTarget>,
    ) -> Result<HeaderValue, CallError> {
        if let Some(token) = self.token() {
            return Ok(token);
        }
        let failed = || CallError::NotSent("the log-in at etcd failed".to_owned());
        let turn = self.turns.get(endpoint).map(Arc::clone);
        let turn = turn.unwrap_or_default();
        match Arc::clone(&turn).try_lock_owned() {
            Ok(held) => {
                let (login, target) = (Arc::clone(self), Arc::clone(target));
                let asking = tokio::spawn(async move {
                    let _held = held;
                    login.ask(&target).await
                });
                asking.await.unwrap_or_else(|_| Err(failed()))
            }
            Err(_) => {
                drop(turn.lock().await);
                self.token().ok_or_else(failed)
            }
        }
    }

    async fn ask(&self, target: &RequestTarget) -> Result<HeaderValue, CallError> {
        let body = json!({ "name": self.name, "password": self.password });
        let body = Bytes::from(body.to_string());
        let mut connection = None;
        let asking = exchange(target, &mut connection, None, AUTHENTICATE, body);
        let Ok(answered) = timeout(LOGIN_TIMEOUT, asking).await else {
            let why = "no answer to the log-in in time".to_owned();
            return Err(CallError::NotSent(why));
        };
        // The call itself was not sent yet.
        let answer = answered.map_err(|error| match error {
            CallError::NoAnswer(why) => CallError::NotSent(why),
            other => other,
        })?;
        let token = answer.get("token").and_then(Value::as_str);
        let token = token.and_then(|token| HeaderValue::from_str(token).ok());
        let token = token.ok_or_else(|| CallError::NotSent("etcd returned no token".to_owned()))?;
        *self.token.lock() = Some(token.clone());
        Ok(token)
    }
}
