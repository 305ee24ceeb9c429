//! Strict JSON parser: rejects input that two parsers could read differently. Byte order marks, duplicate
//! members at any depth, nesting over 32, trailing text and out-of-range numbers are errors.

use std::fmt;

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::json::first_mistake;

/// Objects and arrays in one another. The parser recurses; the limit protects the stack.
pub const JSON_DEPTH: usize = 32;

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
pub fn strict(bytes: &[u8]) -> Result<Value, String> {
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

pub fn not_json(bytes: &[u8]) -> String {
    match first_mistake(bytes, JSON_DEPTH) {
        Some(mistake) => format!("is not valid JSON: {mistake}"),
        None => "is not valid JSON".to_owned(),
    }
}
