//! The JSON object of a request body.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::errors::api_error::ApiError;
use playgate_decode::strict_json::strict;
use playgate_types::Malformed;

/// The JSON object of a request body, parsed member by member so that errors name the member. Unknown members
/// are ignored, and `null` counts as absent.
///
/// A body that is not an object is reported by the first read of a member, together with the other errors of
/// the request.
pub struct Object {
    /// Prefix of member names in errors, such as `parentalControl.`.
    within: String,
    members: Result<Map<String, Value>, Cow<'static, str>>,
}

impl Object {
    pub fn read(body: &[u8]) -> Self {
        // A POST without a body must work where no member is required.
        let members = if body.is_empty() {
            Ok(Map::new())
        } else {
            match strict(body) {
                Ok(Value::Object(members)) => Ok(members),
                Ok(_) => Err("must be a JSON object".into()),
                Err(why) => Err(why.into()),
            }
        };
        Self {
            within: String::new(),
            members,
        }
    }

    pub fn check(&self) -> Result<(), ApiError> {
        self.members().map(drop)
    }

    fn members(&self) -> Result<&Map<String, Value>, ApiError> {
        self.members
            .as_ref()
            .map_err(|why| ApiError::field("body", why.clone()))
    }

    fn error(&self, name: &str, why: impl Into<Cow<'static, str>>) -> ApiError {
        ApiError::field(format!("{}{name}", self.within), why)
    }

    fn get(&self, name: &str) -> Result<Option<&Value>, ApiError> {
        let value = self.members()?.get(name);
        // Many clients serialise an unset member as `null`.
        Ok(value.filter(|value| !value.is_null()))
    }

    pub fn text(&self, name: &str) -> Result<Option<&str>, ApiError> {
        match self.get(name)? {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.error(name, "must be a string")),
        }
    }

    pub fn required_text(&self, name: &str) -> Result<&str, ApiError> {
        self.text(name)?
            .ok_or_else(|| self.error(name, self.why_missing(name)))
    }

    /// Members are often sent under the name that another service gives them.
    fn why_missing(&self, name: &str) -> Cow<'static, str> {
        let others: &[&str] = match name {
            "identity" => &["email", "username", "userName", "user", "login", "mail"],
            "accessKey" => &["password", "pass", "accesskey", "access_key", "secret"],
            "password" => &["accessKey", "newPassword"],
            "email" => &[
                "Email",
                "EMAIL",
                "mail",
                "e-mail",
                "E-Mail",
                "emailAddress",
                "identity",
            ],
            "pinCode" | "newPinCode" => &["pincode", "pin", "pin_code", "newPin"],
            _ => &[],
        };
        match others.iter().find(|other| self.has(other)) {
            Some(other) => format!("is missing; `{other}` is called `{name}` here").into(),
            None => "is missing".into(),
        }
    }

    pub fn parsed<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, Malformed>,
    ) -> Result<Option<T>, ApiError> {
        self.text(name)?
            .map(|text| parse(text).map_err(|why| self.error(name, why.0)))
            .transpose()
    }

    pub fn required<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, Malformed>,
    ) -> Result<T, ApiError> {
        parse(self.required_text(name)?).map_err(|why| self.error(name, why.0))
    }

    pub fn boolean(&self, name: &str) -> Result<Option<bool>, ApiError> {
        match self.get(name)? {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(*value)),
            Some(_) => Err(self.error(name, "must be true or false")),
        }
    }

    /// Returns an integer. `1.0`, `1e2` and `-0` are rejected: serde parses them as floating point.
    ///
    /// # Errors
    /// `INVALID_REQUEST` if it is something else or out of range.
    pub fn integer(&self, name: &str) -> Result<Option<i64>, ApiError> {
        match self.get(name)? {
            None => Ok(None),
            Some(value) => value
                .as_i64()
                .map(Some)
                .ok_or_else(|| self.error(name, "must be an integer")),
        }
    }

    pub fn number(&self, name: &str) -> Result<Option<f64>, ApiError> {
        match self.get(name)? {
            None => Ok(None),
            Some(value) => value
                .as_f64()
                .map(Some)
                .ok_or_else(|| self.error(name, "must be a number")),
        }
    }

    pub fn has(&self, name: &str) -> bool {
        matches!(self.get(name), Ok(Some(_)))
    }

    /// Refuses unknown members, for bodies in which a misspelt member would change the meaning of the others.
    ///
    /// # Errors
    /// `INVALID_REQUEST` that names the first one.
    pub fn only(&self, known: &[&str]) -> Result<(), ApiError> {
        let other = self
            .members()?
            .keys()
            .find(|name| !known.contains(&name.as_str()));
        match other {
            Some(name) => {
                Err(self.error(name, format!("is unknown; known are {}", known.join(", "))))
            }
            None => Ok(()),
        }
    }

    pub fn value(&self, name: &str) -> Option<&Value> {
        self.get(name).ok().flatten()
    }

    /// The names of the members that are not among these.
    pub fn unknown(&self, known: &[&str]) -> Result<Vec<&str>, ApiError> {
        let names = self.members()?.keys().map(String::as_str);
        Ok(names.filter(|name| !known.contains(name)).collect())
    }

    pub fn texts(&self, name: &str) -> Result<Option<Vec<String>>, ApiError> {
        let wrong = || self.error(name, "must be a list of strings");
        let Some(value) = self.get(name)? else {
            return Ok(None);
        };
        let list = value.as_array().ok_or_else(wrong)?;
        list.iter()
            .map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong))
            .collect::<Result<_, _>>()
            .map(Some)
    }

    pub fn object(&self, name: &str) -> Result<Option<Self>, ApiError> {
        match self.get(name)? {
            None => Ok(None),
            Some(Value::Object(members)) => Ok(Some(Self {
                // Errors name the full path of a member.
                within: format!("{}{name}.", self.within),
                members: Ok(members.clone()),
            })),
            Some(_) => Err(self.error(name, "must be an object")),
        }
    }

    pub fn refuse(&self, name: &str, why: impl Into<Cow<'static, str>>) -> ApiError {
        self.error(name, why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ambiguous_json_is_refused() {
        for bad in [
            "\u{feff}{}",
            r#"{"a":1,"a":1}"#,
            r#"{"x":{"a":1,"\u0061":2}}"#,
            r#"[{"a":1,"a":1}]"#,
            "{} {}",
            "{}x",
            "{\"a\":NaN}",
            "{\"a\":1e999}",
            "{'a':1}",
            "{\"a\":1,}",
            "",
            " ",
            "\u{0}",
        ] {
            assert!(strict(bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert!(strict(b"{\"a\":\"\xff\"}").is_err());
        let nest = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(strict(nest(32).as_bytes()).is_ok());
        assert!(strict(nest(33).as_bytes()).is_err());
        assert!(strict(nest(100_000).as_bytes()).is_err());
        assert!(strict(b" {\"a\": [1, -2, 3.5, true, null, \"x\"]} \n").is_ok());
    }

    #[test]
    fn errors_name_the_member() {
        let field =
            |error: ApiError| serde_json::to_value(error.details()).unwrap()["field"].clone();
        let body = br#"{"email":["a"],"n":1.0,"m":-0,"big":18446744073709551616,"p":{"limit":"x"},"z":null}"#;
        let object = Object::read(body);
        assert_eq!(field(object.required_text("email").unwrap_err()), "email");
        assert_eq!(field(object.required_text("z").unwrap_err()), "z");
        assert_eq!(field(object.required_text("q").unwrap_err()), "q");
        for name in ["n", "m", "big"] {
            assert_eq!(field(object.integer(name).unwrap_err()), name);
        }
        let inner = object.object("p").unwrap().unwrap();
        assert_eq!(field(inner.integer("limit").unwrap_err()), "p.limit");
        for bad in ["null", "[]", "1", "\"x\""] {
            assert!(Object::read(bad.as_bytes()).check().is_err(), "{bad}");
            let error = Object::read(bad.as_bytes()).text("a").unwrap_err();
            assert_eq!(field(error), "body");
        }
        assert!(Object::read(b"").check().is_ok());
    }
}
