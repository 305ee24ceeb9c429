//! Errors of the operators' interface and their exit codes.

use http::StatusCode;
use serde_json::Value;

use crate::output::members::elements;
use crate::output::{Exit, Failure};

#[derive(Debug)]
pub(crate) struct AdminError {
    status: StatusCode,
    pub code: String,
    pub message: String,
    pub details: Value,
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

    pub(crate) fn is_ready_but_for(&self, part: &str) -> bool {
        let reasons = self.body.get("reasons").and_then(Value::as_object);
        reasons.is_some_and(|reasons| reasons.keys().all(|named| named == part))
    }

    pub(crate) fn into_body(self) -> Value {
        self.body
    }

    fn exit(&self) -> Exit {
        match (self.code.as_str(), self.status) {
            ("IMPORT_HELD", _) => Exit::Held,
            // The file is wrong, not the command line.
            ("IMPORT_INVALID", _) => Exit::Failed,
            ("INVALID_REQUEST", _) => Exit::Usage,
            ("STORE_UNAVAILABLE", _) => Exit::Fatal,
            (_, StatusCode::NOT_FOUND) => Exit::NotFound,
            _ => Exit::Failed,
        }
    }

    /// Returns the errors of an imported file, or the further errors of a request; the message names the
    /// first.
    fn problems(&self) -> impl Iterator<Item = String> {
        let problems = elements(&self.details, "problems");
        // The message is about the first problem of a request already, and about the only problem of a guide; for a
        // catalogue it is only a summary.
        let in_message = self.details.get("field").is_some()
            || matches!(problems, [only] if self.message.contains(text_of(only)));
        problems
            .iter()
            .skip(usize::from(in_message))
            .map(|problem| {
                let message = text_of(problem);
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

fn text_of(problem: &Value) -> &str {
    let message = problem.get("message").and_then(Value::as_str);
    message.unwrap_or("?")
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
        let mut failure = Self::new(refusal.exit(), message);
        if !refusal.code.is_empty() {
            failure = failure.code(&refusal.code);
        }
        match refusal.details.get("field").and_then(Value::as_str) {
            // The interface names the member of the body; users know it as a flag.
            Some("partner") => failure.hint("name it with `--partner NAME`"),
            _ => failure,
        }
    }
}
