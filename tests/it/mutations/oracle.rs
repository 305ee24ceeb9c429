//! The rules that every response must follow.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::sync::LazyLock;

use playgate_http::errors::code::ErrorCode;
use serde_json::Value;

use crate::support::raw_http::{Answer, Wire};

/// The statuses of each error code.
static CODES: LazyLock<HashMap<&str, Vec<u16>>> = LazyLock::new(|| {
    let mut codes: HashMap<&str, Vec<u16>> = HashMap::new();
    for code in ErrorCode::ALL {
        codes
            .entry(code.as_str())
            .or_default()
            .push(code.status().as_u16());
    }
    codes
});

/// Allowed errors with a status above 499: unsupported parts of HTTP, failing license servers, and a program without
/// live rights. `OVERLOADED` is not allowed, because one request at a time overloads nothing.
const ALLOWED: [&str; 6] = [
    "METHOD_NOT_IMPLEMENTED",
    "TRANSFER_CODING_NOT_IMPLEMENTED",
    "LICENSE_SERVER_FAILED",
    "LICENSE_SERVER_TIMEOUT",
    "EPG_SOURCE_FAILED",
    "NO_LIVE_RIGHTS",
];

/// All bytes that a connection returned.
struct ReceivedBytes(io::Cursor<Vec<u8>>);

impl Read for ReceivedBytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for ReceivedBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Parses the responses to requests of these methods, and any further responses.
///
/// # Errors
/// Bytes that are not HTTP, or a truncated response.
pub fn read(bytes: Vec<u8>, methods: &[&str]) -> Result<Vec<Answer>, String> {
    let mut wire = Wire::over(ReceivedBytes(io::Cursor::new(bytes)));
    let mut answers: Vec<Answer> = Vec::new();
    loop {
        let method = methods.get(answers.len()).copied().unwrap_or("GET");
        let received =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| wire.try_answer_to(method)));
        match received {
            Ok(Ok(Some(answer))) => answers.push(answer),
            Ok(Ok(None)) if wire.is_empty() => return Ok(answers),
            Ok(Ok(None)) => return Err("bytes that are no answer".to_owned()),
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => return Err("no well-formed HTTP".to_owned()),
        }
    }
}

pub fn check_response(answer: &Answer) -> Result<(), String> {
    let body = String::from_utf8_lossy(&answer.body);
    let wrong = |what: &str| Err(format!("{what}: {} {body}", answer.status));
    let status = answer.status;
    if !(200..=599).contains(&status) {
        return wrong("no final status");
    }
    if status < 400 {
        return Ok(());
    }
    let media = answer.header("content-type").unwrap_or_default();
    // Errors of hyper's parser have no body and end the connection, which HTTP/1.0 need not announce.
    if answer.body.is_empty() {
        let ends = matches!(answer.header("connection"), Some("close") | None);
        let bare = matches!(status, 400 | 408 | 414 | 431) && ends;
        let of_head = answer
            .header("content-length")
            .is_some_and(|length| length != "0");
        return if bare || of_head {
            no_failure(status, None)
        } else {
            wrong("an error without a body")
        };
    }
    if media.starts_with("text/html") || media.starts_with("text/xml") {
        return no_failure(status, None);
    }
    let Ok(json) = serde_json::from_slice::<Value>(&answer.body) else {
        return wrong("an error that is no JSON");
    };
    let error = &json["error"];
    for member in ["message", "user_message", "code"] {
        if error[member].as_str().is_none_or(str::is_empty) {
            return wrong("an error without its members");
        }
    }
    if error
        .get("details")
        .is_some_and(|details| !details.is_object())
    {
        return wrong("details that are no object");
    }
    let code = error["code"].as_str().unwrap_or_default();
    if !CODES.get(code).is_some_and(|known| known.contains(&status)) {
        return wrong("a code that is not known, or not of this status");
    }
    no_failure(status, Some(code)).or_else(|_| wrong("a failure"))
}

fn no_failure(status: u16, code: Option<&str>) -> Result<(), String> {
    match code {
        _ if status < 500 => Ok(()),
        Some(code) if ALLOWED.contains(&code) => Ok(()),
        // Pages and SOAP faults have no JSON code; only a license server can have failed.
        None if matches!(status, 501 | 502 | 504) => Ok(()),
        _ => Err(format!("a failure: {status}")),
    }
}
