//! Users from the export of another service, as lines for the import.

use data_encoding::BASE64_NOPAD;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::output::members::number;
use playgate_types::Locale;

#[derive(Default)]
pub(super) struct ForeignUser {
    pub(super) email: Option<String>,
    pub(super) name: Option<String>,
    pub(super) password_hash: Option<String>,
    pub(super) disabled: bool,
    pub(super) locale: Option<String>,
    /// Unix milliseconds.
    pub(super) created: Option<i64>,
}

/// The users of a file. A user that cannot be imported unchanged is left out, with its line and the reason.
#[derive(Default)]
pub(super) struct ForeignUsers {
    body: Vec<u8>,
    /// For each user of the body, its line in the file.
    lines: Vec<u64>,
    problems: Vec<Reported>,
    notes: Vec<Reported>,
}

struct Reported {
    line: u64,
    account: Option<String>,
    message: String,
}

impl Reported {
    fn json(&self) -> Value {
        let mut json = json!({"line": self.line, "message": self.message});
        if let (Some(account), Some(members)) = (&self.account, json.as_object_mut()) {
            members.insert("account".to_owned(), account.clone().into());
        }
        json
    }
}

impl ForeignUsers {
    /// `account` names the user in the report.
    pub(super) fn push(
        &mut self,
        line: u64,
        account: Option<String>,
        user: Result<ForeignUser, String>,
    ) {
        let notes = &mut self.notes;
        let converted = user.and_then(|user| {
            let email = user.email.filter(|email| !email.is_empty());
            let email = email.ok_or("the user has no e-mail address")?;
            let locale = user.locale.filter(|locale| {
                let sound = Locale::parse(locale).is_ok();
                if !sound {
                    notes.push(Reported {
                        line,
                        account: account.clone(),
                        message: "left out: the language, which is no language tag".to_owned(),
                    });
                }
                sound
            });
            let members = [
                ("email", Some(email.into())),
                ("name", user.name.map(Value::from)),
                ("passwordHash", user.password_hash.map(Value::from)),
                ("locale", locale.map(Value::from)),
                (
                    "createdTimestamp",
                    user.created.map(|at| (at / 1_000).into()),
                ),
                ("disabled", user.disabled.then_some(true.into())),
            ];
            let given = members
                .into_iter()
                .filter_map(|(name, value)| Some((name.to_owned(), value?)));
            Ok(Value::Object(given.collect()))
        });
        match converted {
            Ok(user) => {
                self.body.extend_from_slice(user.to_string().as_bytes());
                self.body.push(b'\n');
                self.lines.push(line);
            }
            Err(message) => self.problems.push(Reported {
                line,
                account,
                message,
            }),
        }
    }

    /// Takes over lines of our own format from an array.
    pub(super) fn from_array(text: &str) -> Result<Self, String> {
        let list: Vec<&RawValue> = serde_json::from_str(text)
            .map_err(|error| format!("the file is a JSON array with a mistake: {error}"))?;
        let mut users = Self::default();
        let mut lines = Lines::new(text);
        for user in list {
            users.lines.push(lines.of(user));
            // Line breaks of JSON are between its values: one inside a text is written `\\n`.
            users
                .body
                .extend(user.get().replace(['\r', '\n'], " ").bytes());
            users.body.push(b'\n');
        }
        Ok(users)
    }

    /// Converts each element of an array within `text`.
    pub(super) fn push_each<'a, T: Deserialize<'a>>(
        &mut self,
        text: &str,
        users: &[&'a RawValue],
        convert: impl Fn(T) -> Result<ForeignUser, String>,
    ) {
        let mut lines = Lines::new(text);
        for user in users {
            let line = lines.of(user);
            let read = serde_json::from_str(user.get()).map_err(|error| json_problem(&error));
            self.push(line, account(user.get()), read.and_then(&convert));
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
        for (list, unsent) in [("failed", &self.problems), ("notes", &self.notes)] {
            let listed = report.get_mut(list).and_then(Value::as_array_mut);
            let Some(listed) = listed else { continue };
            for reported in listed.iter_mut() {
                let sent = number(reported, "line");
                // The server counts the lines that it received; the user looks for lines of the file.
                let nth = usize::try_from(sent.saturating_sub(1)).unwrap_or(usize::MAX);
                if let (Some(line), Some(place)) = (self.lines.get(nth), reported.get_mut("line")) {
                    *place = json!(line);
                }
            }
            listed.extend(unsent.iter().map(Reported::json));
            listed.sort_by_key(|reported| reported.get("line").and_then(Value::as_u64));
        }
        for (count, unsent) in [
            ("lines", &self.problems),
            ("rejected", &self.problems),
            ("noted", &self.notes),
        ] {
            if let Some(place) = report.get_mut(count) {
                let added = u64::try_from(unsent.len()).unwrap_or(u64::MAX);
                *place = json!(place.as_u64().unwrap_or(0).saturating_add(added));
            }
        }
    }
}

/// The lines on which the elements of an array begin.
struct Lines<'t> {
    text: &'t str,
    line: u64,
    counted: usize,
}

impl<'t> Lines<'t> {
    const fn new(text: &'t str) -> Self {
        Self {
            text,
            line: 1,
            counted: 0,
        }
    }

    /// The elements are slices of the text, asked for in its order.
    fn of(&mut self, element: &RawValue) -> u64 {
        // The position of the slice in its text, found without a second parse.
        let start = self.text.as_ptr().addr();
        let at = element.get().as_ptr().addr().saturating_sub(start);
        let between = self.text.as_bytes().get(self.counted..at);
        self.line += super::request_body::line_ends(between.unwrap_or_default());
        self.counted = at;
        self.line
    }
}

/// What names a user for a person: the address, else the name or id in the other service.
pub(super) fn account(user: &str) -> Option<String> {
    let user: Value = serde_json::from_str(user).ok()?;
    let names = ["email", "Email", "username", "localId", "user_id"];
    let text = |name: &&str| user.get(*name).and_then(Value::as_str);
    let found = names.iter().find_map(text);
    found.map(|name| name.chars().take(254).collect())
}

/// Reads a time: Unix seconds or milliseconds, as a number or text, or RFC 3339. Another form is none.
pub(super) fn millis(value: Option<&Value>) -> Option<i64> {
    let value = match value? {
        // The dates of MongoDB, in which Auth0 keeps its users.
        Value::Object(date) => date.get("$date")?,
        other => other,
    };
    let number = value.as_i64().or_else(|| value.as_str()?.parse().ok());
    match number {
        Some(seconds) if seconds < 100_000_000_000 => seconds.checked_mul(1_000),
        Some(millis) => Some(millis),
        None => chrono::DateTime::parse_from_rfc3339(value.as_str()?)
            .ok()
            .map(|time| time.timestamp_millis()),
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
