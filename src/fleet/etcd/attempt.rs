//! One attempt of a call: a request at one endpoint, and its answer.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use hyper::body::Bytes;
use serde_json::Value;
use tokio::time::Instant;

use super::exchange::{CallError, Connection, exchange};
use super::login::Login;
use playgate_ports::RequestTarget;

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
        let (token, body) = (self.token.as_ref(), self.body.clone());
        exchange(&self.target, &mut self.connection, token, self.path, body).await
    }
}
