//! What the operators' interface refuses, and the exit code that goes with each refusal.

use http::StatusCode;
use serde_json::Value;

use crate::cli::exit::{Exit, Failure};

/// An error body of the interface.
#[derive(Debug)]
pub struct AdminError {
    status: StatusCode,
    /// The stable word.
    pub code: String,
    /// What was wrong, for the person who gave the command.
    pub message: String,
    /// Its data.
    pub details: Value,
    /// The whole body.
    body: Value,
}

impl AdminError {
    pub(super) fn new(status: StatusCode, body: &Value) -> Self {
        let text = |member: &str| {
            body.pointer(&format!("/error/{member}"))
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let details = body.pointer("/error/details").cloned();
        Self {
            status,
            code: text("code"),
            message: text("message"),
            details: details.unwrap_or_default(),
            body: body.clone(),
        }
    }

    /// Whether an answer of `/readyz` names no other part.
    #[must_use]
    pub fn is_ready_but_for(&self, part: &str) -> bool {
        let reasons = self.body.get("reasons").and_then(Value::as_object);
        reasons.is_some_and(|reasons| reasons.keys().all(|named| named == part))
    }

    /// The whole body, where a refusal is what was asked for.
    #[must_use]
    pub fn into_body(self) -> Value {
        self.body
    }

    fn exit(&self) -> Exit {
        match (self.code.as_str(), self.status) {
            ("IMPORT_HELD", _) => Exit::Held,
            ("IMPORT_INVALID", _) => Exit::Failed,
            ("INVALID_REQUEST", _) => Exit::Usage,
            ("STORE_UNAVAILABLE", _) => Exit::Fatal,
            (_, StatusCode::NOT_FOUND) => Exit::NotFound,
            _ => Exit::Failed,
        }
    }

    /// The mistakes of an imported file, or of the request but the first, which the message is about.
    fn problems(&self) -> impl Iterator<Item = String> {
        let problems = self.details.get("problems").and_then(Value::as_array);
        let told = usize::from(self.details.get("field").is_some());
        problems.into_iter().flatten().skip(told).map(|problem| {
            let message = problem
                .get("message")
                .and_then(Value::as_str)
                .unwrap_or("?");
            let line = problem.get("line").and_then(Value::as_u64);
            let field = problem.get("field").and_then(Value::as_str);
            match (line, field) {
                (Some(line), _) => format!("line {line}: {message}"),
                (None, Some(field)) => format!("{field}: {message}"),
                (None, None) => message.to_owned(),
            }
        })
    }
}

impl From<AdminError> for Failure {
    fn from(refusal: AdminError) -> Self {
        let mut message = if refusal.message.is_empty() {
            format!("the server answered {}", refusal.status)
        } else {
            refusal.message.clone()
        };
        for problem in refusal.problems() {
            message.push_str("\n  ");
            message.push_str(&problem);
        }
        let failure = Self::new(refusal.exit(), message);
        match refusal.details.get("field").and_then(Value::as_str) {
            Some("partner") => failure.hint("`--partner NAME` names it"),
            _ => failure,
        }
    }
}
