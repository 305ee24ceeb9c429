//! Users from the export of another service, as lines for the import.

use data_encoding::BASE64_NOPAD;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::cli::members::number;

pub(super) struct ForeignUser {
    pub(super) email: Option<String>,
    pub(super) name: Option<String>,
    pub(super) password_hash: Option<String>,
    pub(super) disabled: bool,
}

/// The users of a file. A user that cannot be imported unchanged is left out, with its line and the reason.
#[derive(Default)]
pub(super) struct ForeignUsers {
    body: Vec<u8>,
    /// For each user of the body, its line in the file.
    lines: Vec<u64>,
    problems: Vec<(u64, String)>,
}

impl ForeignUsers {
    pub(super) fn push(&mut self, line: u64, user: Result<ForeignUser, String>) {
        let converted = user.and_then(|user| {
            if user.disabled {
                // An import creates only active accounts.
                return Err("the account is disabled: enable it in the service that it comes from, or remove it from the file".to_owned());
            }
            let email = user.email.filter(|email| !email.is_empty());
            let email = email.ok_or("the user has no e-mail address")?;
            let members = [
                ("email", Some(email)),
                ("name", user.name),
                ("passwordHash", user.password_hash),
            ];
            let given = members
                .into_iter()
                .filter_map(|(name, text)| Some((name.to_owned(), text?.into())));
            Ok(Value::Object(given.collect()))
        });
        match converted {
            Ok(user) => {
                self.body.extend_from_slice(user.to_string().as_bytes());
                self.body.push(b'\n');
                self.lines.push(line);
            }
            Err(what) => self.problems.push((line, what)),
        }
    }

    /// Converts each element of an array within `text`.
    pub(super) fn push_each<'a, T: Deserialize<'a>>(
        &mut self,
        text: &str,
        users: &[&'a RawValue],
        convert: impl Fn(T) -> Result<ForeignUser, String>,
    ) {
        // The elements are slices of the text, in its order.
        let (mut line, mut counted) = (1, 0);
        for user in users {
            // The position of the slice in its text, found without a second parse.
            let at = user
                .get()
                .as_ptr()
                .addr()
                .saturating_sub(text.as_ptr().addr());
            let between = text.as_bytes().get(counted..at).unwrap_or_default();
            line += super::request_body::line_ends(between);
            counted = at;
            let read = serde_json::from_str(user.get()).map_err(|error| json_problem(&error));
            self.push(line, read.and_then(&convert));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.problems.is_empty()
    }

    pub(super) fn sent(&self) -> u64 {
        u64::try_from(self.lines.len()).unwrap_or(u64::MAX)
    }

    pub(super) fn body(&self) -> Vec<u8> {
        self.body.clone()
    }

    /// Names the lines of the file in the server's report, and adds the users that were not sent.
    pub(super) fn complete(&self, report: &mut Value) {
        let failed = report.get_mut("failed").and_then(Value::as_array_mut);
        let Some(failed) = failed else { return };
        for failure in failed.iter_mut() {
            let sent = number(failure, "line");
            // The server counts the lines that it received; the user looks for lines of the file.
            let nth = usize::try_from(sent.saturating_sub(1)).unwrap_or(usize::MAX);
            if let (Some(line), Some(place)) = (self.lines.get(nth), failure.get_mut("line")) {
                *place = json!(line);
            }
        }
        let own = self.problems.iter();
        failed.extend(own.map(|(line, message)| json!({"line": line, "message": message})));
        failed.sort_by_key(|failure| failure.get("line").and_then(Value::as_u64));
        let left_out = u64::try_from(self.problems.len()).unwrap_or(u64::MAX);
        for count in ["lines", "rejected"] {
            if let Some(place) = report.get_mut(count) {
                *place = json!(place.as_u64().unwrap_or(0) + left_out);
            }
        }
    }
}

pub(super) fn json_problem(error: &serde_json::Error) -> String {
    let text = error.to_string();
    // The position would count from the start of a part of the file.
    let text = text.split(" at line ").next().unwrap_or_default();
    format!("this is not a user in the format of that service: {text}")
}

pub(super) fn file_problem(error: &serde_json::Error) -> String {
    format!("line {}: {}", error.line(), json_problem(error))
}

/// Converts base64 of either alphabet, padded or not, to the form of PHC strings.
pub(super) fn phc_base64(text: &str) -> Result<String, String> {
    let text: String = text
        .trim_end_matches('=')
        .chars()
        .map(|c| match c {
            '-' => '+',
            '_' => '/',
            other => other,
        })
        .collect();
    match BASE64_NOPAD.decode(text.as_bytes()) {
        Ok(_) => Ok(text),
        Err(_) => Err("the password hash is not base64".to_owned()),
    }
}

pub(super) fn full_name(first: Option<String>, last: Option<String>) -> Option<String> {
    let parts: Vec<String> = first.into_iter().chain(last).collect();
    let name = parts.join(" ").trim().to_owned();
    (!name.is_empty()).then_some(name)
}
