//! The notation in which descriptions write a type and its meaning: `Type?: text`.
//!
//! A type is a JSON Schema type (`string`, `integer`, `number`, `boolean`, `object`, `any`), the
//! name of a schema (`Broadcast`), `[Type]` for a list, `{Type}` for a map from strings, `a | b`
//! for an enumeration of strings, or `Type | null`. A trailing `?` marks an optional member.

use serde_json::{Map, Value, json};

pub(super) struct Note<'a> {
    pub schema: Value,
    pub optional: bool,
    pub text: &'a str,
}

impl<'a> Note<'a> {
    pub(super) fn read(note: &'a str) -> Result<Self, String> {
        let (kind, text) = note.split_once(": ").unwrap_or((note, ""));
        let (kind, optional) = match kind.strip_suffix('?') {
            Some(kind) => (kind, true),
            None => (kind, false),
        };
        Ok(Self {
            schema: schema(kind).ok_or_else(|| note.to_owned())?,
            optional,
            text,
        })
    }
}

pub(super) const SCHEMAS: &str = "#/components/schemas/";

fn schema(kind: &str) -> Option<Value> {
    // Before the enumeration, whose words are separated in the same way.
    if let Some(kind) = kind.strip_suffix(" | null") {
        return schema(kind).map(nullable);
    }
    let within = |open, close| kind.strip_prefix(open)?.strip_suffix(close);
    if let Some(item) = within('[', ']') {
        return Some(json!({"type": "array", "items": schema(item)?}));
    }
    if let Some(item) = within('{', '}') {
        return Some(json!({"type": "object", "additionalProperties": schema(item)?}));
    }
    if kind.contains(" | ") {
        let words: Vec<_> = kind.split(" | ").collect();
        return Some(json!({"type": "string", "enum": words}));
    }
    match kind {
        "integer" => Some(json!({"type": kind, "format": "int64"})),
        "string" | "number" | "boolean" | "object" => Some(json!({"type": kind})),
        "any" => Some(json!({})),
        _ if kind.starts_with(|c: char| c.is_ascii_uppercase()) => {
            Some(json!({"$ref": format!("{SCHEMAS}{kind}")}))
        }
        _ => None,
    }
}

pub(super) fn nullable(mut schema: Value) -> Value {
    // `any` includes `null`.
    if schema == json!({}) {
        return schema;
    }
    let words = schema.get_mut("enum").and_then(Value::as_array_mut);
    // In JSON Schema, `null` must be one of the words to be allowed.
    if let Some(words) = words {
        words.push(Value::Null);
    }
    match schema.get_mut("type") {
        Some(kind) => {
            *kind = json!([kind.take(), "null"]);
            schema
        }
        None => json!({"anyOf": [schema, {"type": "null"}]}),
    }
}

pub(super) fn with_description(mut schema: Value, text: &str) -> Value {
    if let Some(members) = schema.as_object_mut()
        && !text.is_empty()
    {
        members.insert("description".to_owned(), text.into());
    }
    schema
}

/// Builds the schema of an object from the notes of its members. In an object that a client sends,
/// `null` means the same as an absent member.
///
/// # Errors
/// The note that names no type.
pub(super) fn object<'a>(
    members: impl Iterator<Item = (&'a String, &'a String)>,
    sent: bool,
) -> Result<Value, String> {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, note) in members {
        let note = Note::read(note)?;
        if !note.optional {
            required.push(name.as_str());
        }
        let schema = match sent && note.optional {
            true => nullable(note.schema),
            false => note.schema,
        };
        properties.insert(name.clone(), with_description(schema, note.text));
    }
    Ok(json!({"type": "object", "properties": properties, "required": required}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(note: &str) -> (Value, bool, &str) {
        let Note {
            schema,
            optional,
            text,
        } = Note::read(note).unwrap();
        (schema, optional, text)
    }

    #[test]
    fn notes_become_schemas() {
        for (note, schema, optional, text) in [
            ("string: a: b", json!({"type": "string"}), false, "a: b"),
            (
                "[Image]?",
                json!({"type": "array", "items": {"$ref": "#/components/schemas/Image"}}),
                true,
                "",
            ),
            (
                "{[any]}: x",
                json!({"type": "object", "additionalProperties": {"type": "array", "items": {}}}),
                false,
                "x",
            ),
            (
                "a | b | null: x",
                json!({"type": ["string", "null"], "enum": ["a", "b", null]}),
                false,
                "x",
            ),
            (
                "Time | null: x",
                json!({"anyOf": [{"$ref": "#/components/schemas/Time"}, {"type": "null"}]}),
                false,
                "x",
            ),
        ] {
            assert_eq!(read(note), (schema, optional, text), "{note}");
        }
        assert_eq!(read("any | null").0, json!({}));
        for bad in ["", ": x", "text: x", "[string: x", "{}: x"] {
            assert!(Note::read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn optional_members_of_requests_accept_null() {
        let members = [("a", "string: x"), ("b", "string?: y")];
        let members = members.map(|(name, note)| (name.to_owned(), note.to_owned()));
        let schema_for = |sent| object(members.iter().map(|(n, m)| (n, m)), sent).unwrap();
        assert_eq!(schema_for(true)["required"], json!(["a"]));
        assert_eq!(
            schema_for(true)["properties"]["b"]["type"],
            json!(["string", "null"])
        );
        assert_eq!(schema_for(false)["properties"]["b"]["type"], "string");
    }
}
