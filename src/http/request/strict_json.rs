//! Strict JSON parser: rejects input that two parsers could read differently. Byte order marks, duplicate
//! members at any depth, nesting over 32, trailing text and out-of-range numbers are errors.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::config::limits::JSON_DEPTH;
use crate::decode::json::first_mistake;
use crate::http::errors::api_error::ApiError;
use crate::types::Malformed;

struct Strict(usize);

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value)
            .map(Value::Number)
            // Infinity and NaN have no form in JSON and could not be written again.
            .ok_or_else(|| E::custom("out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let depth = deeper(self.0)?;
        let mut values = Vec::new();
        while let Some(value) = seq.next_element_seed(Strict(depth))? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let depth = deeper(self.0)?;
        let mut members = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            let value = map.next_value_seed(Strict(depth))?;
            // Parsers differ in which of two members they take. A gateway could check one while this service acts on
            // the other.
            if members.insert(name, value).is_some() {
                return Err(A::Error::custom("occurs twice"));
            }
        }
        Ok(Value::Object(members))
    }
}

fn deeper<E: Error>(depth: usize) -> Result<usize, E> {
    // The parser recurses; the limit protects the stack.
    if depth < JSON_DEPTH {
        Ok(depth + 1)
    } else {
        Err(E::custom("nested too deeply"))
    }
}

/// Parses one JSON value.
///
/// # Errors
/// A sentence for the developer of the partner, without the offending text.
pub(crate) fn strict(bytes: &[u8]) -> Result<Value, String> {
    if bytes.starts_with(&[0xef, 0xbb, 0xbf]) {
        return Err("must not begin with a byte order mark".to_owned());
    }
    let mut from = serde_json::Deserializer::from_slice(bytes);
    let value = Strict(0)
        .deserialize(&mut from)
        // Text after the value is refused: a gateway that reads lines would see what this parser ignores.
        .and_then(|value| from.end().map(|()| value));
    // Parser messages may quote the input; `not_json` does not.
    value.map_err(|_| not_json(bytes))
}

#[must_use]
pub(crate) fn not_json(bytes: &[u8]) -> String {
    match first_mistake(bytes, JSON_DEPTH) {
        Some(mistake) => format!("is not valid JSON: {mistake}"),
        None => "is not valid JSON".to_owned(),
    }
}

/// The JSON object of a request body, parsed member by member so that errors name the member. Unknown members
/// are ignored, and `null` counts as absent.
///
/// A body that is not an object is reported by the first read of a member, together with the other errors of
/// the request.
pub(crate) struct Object {
    /// Prefix of member names in errors, such as `parentalControl.`.
    within: String,
    members: Result<Map<String, Value>, Cow<'static, str>>,
}

impl Object {
    #[must_use]
    pub(crate) fn read(body: &[u8]) -> Self {
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

    pub(crate) fn check(&self) -> Result<(), ApiError> {
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

    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, ApiError> {
        match self.get(name)? {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.error(name, "must be a string")),
        }
    }

    pub(crate) fn required_text(&self, name: &str) -> Result<&str, ApiError> {
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

    pub(crate) fn parsed<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, Malformed>,
    ) -> Result<Option<T>, ApiError> {
        self.text(name)?
            .map(|text| parse(text).map_err(|why| self.error(name, why.0)))
            .transpose()
    }

    pub(crate) fn required<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, Malformed>,
    ) -> Result<T, ApiError> {
        parse(self.required_text(name)?).map_err(|why| self.error(name, why.0))
    }

    pub(crate) fn boolean(&self, name: &str) -> Result<Option<bool>, ApiError> {
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
    pub(crate) fn integer(&self, name: &str) -> Result<Option<i64>, ApiError> {
        match self.get(name)? {
            None => Ok(None),
            Some(value) => value
                .as_i64()
                .map(Some)
                .ok_or_else(|| self.error(name, "must be an integer")),
        }
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<f64>, ApiError> {
        match self.get(name)? {
            None => Ok(None),
            Some(value) => value
                .as_f64()
                .map(Some)
                .ok_or_else(|| self.error(name, "must be a number")),
        }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        matches!(self.get(name), Ok(Some(_)))
    }

    /// Refuses unknown members, for bodies in which a misspelt member would change the meaning of the others.
    ///
    /// # Errors
    /// `INVALID_REQUEST` that names the first one.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), ApiError> {
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

    pub(crate) fn value(&self, name: &str) -> Option<&Value> {
        self.get(name).ok().flatten()
    }

    /// The names of the members that are not among these.
    pub(crate) fn unknown(&self, known: &[&str]) -> Result<Vec<&str>, ApiError> {
        let names = self.members()?.keys().map(String::as_str);
        Ok(names.filter(|name| !known.contains(name)).collect())
    }

    pub(crate) fn texts(&self, name: &str) -> Result<Option<Vec<String>>, ApiError> {
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

    pub(crate) fn object(&self, name: &str) -> Result<Option<Self>, ApiError> {
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

    pub(crate) fn refuse(&self, name: &str, why: impl Into<Cow<'static, str>>) -> ApiError {
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
