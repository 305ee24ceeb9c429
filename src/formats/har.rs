//! Records of the request journal as an HTTP archive (HAR 1.2), which browsers and proxies open.
//!
//! Tokens, most of a request body and the response body are absent, because the journal does not have them. Members
//! whose names begin with `_` are allowed by the format; they carry the decision.

use chrono::{DateTime, SecondsFormat};
use serde::Serialize;
use serde_json::{Value, json};

use crate::decision_step::StepBody;
use playgate_records::journal::{JournalRecord, NamedText};
use playgate_types::{Described, JsonType, percent_encoded};

#[derive(Described, Serialize)]
pub struct HttpArchive {
    /// The log, as HAR 1.2 defines it.
    #[described(JsonType::Map(&JsonType::Any))]
    log: HarLog,
}

#[derive(Serialize)]
struct HarLog {
    version: &'static str,
    creator: Value,
    entries: Vec<Value>,
}

impl HttpArchive {
    /// Takes records newest first and lists them oldest first, as the format wants them.
    pub fn new(records: Vec<JournalRecord>, base: &str) -> Self {
        let entries = records.into_iter().rev();
        Self {
            log: HarLog {
                version: "1.2",
                creator: json!({"name": "Playgate", "version": env!("CARGO_PKG_VERSION")}),
                entries: entries.map(|record| entry(record, base)).collect(),
            },
        }
    }
}

fn entry(record: JournalRecord, base: &str) -> Value {
    let refusal = record.code.as_ref().map(|code| {
        let mut error = json!({"code": code, "message": record.message});
        if let (Some(error), Some(details)) = (error.as_object_mut(), &record.details) {
            error.insert("details".to_owned(), read(details));
        }
        json!({"error": error}).to_string()
    });
    let steps: Vec<StepBody> = record.steps.into_iter().map(StepBody::from).collect();
    json!({
        "startedDateTime": started(record.at_millis),
        "time": millis(record.micros),
        "request": request(&record.method, &record.path, &record.query, record.headers, &record.body, base),
        "response": {
            "status": record.status,
            "statusText": http::StatusCode::from_u16(record.status)
                .ok()
                .and_then(|status| status.canonical_reason())
                .unwrap_or_default(),
            "httpVersion": "HTTP/1.1",
            "cookies": [],
            "headers": [{"name": "X-Request-Id", "value": record.id}],
            "content": {
                "size": refusal.as_ref().map_or(0, String::len),
                "mimeType": "application/json",
                "text": refusal.unwrap_or_default(),
                "comment": "the journal has the error, and no other part of a body",
            },
            "redirectURL": "",
            "headersSize": -1,
            "bodySize": -1,
        },
        "cache": {},
        "timings": {"send": 0, "wait": millis(record.micros), "receive": 0},
        "comment": record.route,
        "_user": record.user.map(|user| user.to_string()),
        "_session": record.session.map(|session| session.to_string()),
        "_steps": steps,
        "_fault": record.fault,
    })
}

fn request(
    method: &str,
    path: &str,
    query: &[NamedText],
    headers: Vec<NamedText>,
    body: &[NamedText],
    base: &str,
) -> Value {
    let pairs = |texts: &[NamedText]| -> Vec<Value> {
        let pair = |text: &NamedText| json!({"name": text.name, "value": text.value});
        texts.iter().map(pair).collect()
    };
    let search: Vec<String> = query
        .iter()
        .map(|text| format!("{}={}", text.name, percent_encoded(&text.value)))
        .collect();
    let mut url = format!("{base}{}", encoded_path(path));
    if !search.is_empty() {
        url = format!("{url}?{}", search.join("&"));
    }
    let mut request = json!({
        "method": method,
        "url": url,
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": pairs(&headers),
        "queryString": pairs(query),
        "headersSize": -1,
        "bodySize": -1,
    });
    if !body.is_empty() {
        let members = body
            .iter()
            .map(|text| (text.name.to_string(), read(&text.value)));
        let object = Value::Object(members.collect());
        if let Some(request) = request.as_object_mut() {
            let posted =
                json!({"mimeType": "application/json", "params": [], "text": object.to_string()});
            request.insert("postData".to_owned(), posted);
        }
    }
    request
}

fn read(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_default()
}

/// Encodes a path. It is recorded as it was sent, with `{name}` in place of masked segments.
fn encoded_path(path: &str) -> String {
    path.replace('{', "%7B").replace('}', "%7D")
}

fn started(at_millis: i64) -> String {
    let time = DateTime::from_timestamp_millis(at_millis).unwrap_or_default();
    time.to_rfc3339_opts(SecondsFormat::Millis, true)
}

fn millis(micros: u64) -> Value {
    // Two integers make the decimal: a float would show rounding errors.
    serde_json::from_str(&format!("{}.{:03}", micros / 1_000, micros % 1_000)).unwrap_or_default()
}
