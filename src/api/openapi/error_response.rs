//! Describes error responses: one schema for all of them, and the codes of each status.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::errors::{self, COMMON_ERRORS};
use super::shared_parts::header_refs;
use super::type_notation::SCHEMAS;
use playgate_http::{About, ErrorCode};

/// The published name of the body of every error. It is not called `Error`: in many
/// languages a generated class of that name hides a built-in one.
pub(super) const ERROR_BODY: &str = "ErrorResponse";

pub(super) fn error_code_schema(codes: &[ErrorCode]) -> Value {
    // Two codes may have one name with different statuses; the list has it once.
    let words: BTreeSet<_> = codes.iter().map(|code| code.as_str()).collect();
    let lines: Vec<_> = codes
        .iter()
        .map(|code| {
            let (status, word) = (code.status().as_u16(), code.as_str());
            format!("- `{word}` ({status}): {}", code.meaning())
        })
        .collect();
    json!({
        "type": "string",
        // Not `enum`: a generated client would fail to parse an error with a code of a later version.
        "x-extensible-enum": words,
        "examples": [ErrorCode::InvalidRequest.as_str()],
        "description": format!(
            "A stable identifier of the error, for programs. Later versions may add more.\n\n{}",
            lines.join("\n")
        ),
    })
}

pub(super) fn common_name(status: u16) -> String {
    format!("Anywhere{status}")
}

pub(super) fn common_responses(about: &About<'_>) -> Map<String, Value> {
    let mut of_status = errors::Codes::new();
    for code in COMMON_ERRORS {
        of_status
            .entry(code.status().as_u16())
            .or_default()
            .push(code);
    }
    let form = Form {
        flat: false,
        soap: false,
        page: false,
    };
    of_status
        .into_iter()
        .map(|(status, codes)| {
            let answer = error_response(status, &codes, form, about);
            (common_name(status), answer)
        })
        .collect()
}

#[derive(Clone, Copy)]
pub(super) struct Form {
    /// The message at top level as well, as the login routes have it.
    pub flat: bool,
    pub soap: bool,
    pub page: bool,
}

pub(super) fn error_schema() -> Value {
    json!({"$ref": format!("{SCHEMAS}{ERROR_BODY}")})
}

/// Builds the response for an error status: the meanings of its codes, and an example of each.
///
/// The codes are not part of the schema. With a schema for each set of codes, generators make a class
/// for each response: thousands instead of one.
pub(super) fn error_response(
    status: u16,
    codes: &[ErrorCode],
    form: Form,
    about: &About<'_>,
) -> Value {
    let lines: Vec<_> = codes
        .iter()
        .map(|code| format!("- `{}`: {}", code.as_str(), code.meaning()))
        .collect();
    let words: Vec<_> = codes.iter().map(|code| code.as_str()).collect();
    let examples: Map<_, _> = codes
        .iter()
        .map(|code| {
            let body = example(*code, form.flat, about);
            (code.as_str().to_owned(), json!({"value": body}))
        })
        .collect();
    let json = json!({"schema": error_schema(), "examples": examples});
    let content = match form {
        Form { page: true, .. } => json!({"text/html": {"schema": {"type": "string"}}}),
        Form { soap: true, .. } => {
            json!({"application/json": json, "text/xml": {"schema": {"type": "string"}}})
        }
        Form { .. } => json!({"application/json": json}),
    };
    let more: &[&str] = match status {
        401 => &["WWW-Authenticate"],
        429 => &["Retry-After", "RateLimit", "RateLimit-Policy"],
        503 => &["Retry-After"],
        _ => &[],
    };
    json!({
        "description": lines.join("\n"),
        "headers": header_refs(["X-Request-Id"].iter().chain(more).copied()),
        "content": content,
        "x-error-codes": words,
    })
}

fn example(code: ErrorCode, flat: bool, about: &About<'_>) -> Value {
    let mut body = json!({"error": {
        "code": code.as_str(),
        "message": code.meaning(),
        "user_message": about.messages.pick(code, Some("en"), None),
    }});
    if let Some(members) = body.as_object_mut().filter(|_| flat) {
        members.insert("message".to_owned(), code.meaning().into());
    }
    body
}
