//! Schemas of the types that bodies are made of.

use serde_json::{Map, Value, json};

use super::type_notation::{SCHEMAS, nullable, with_description};
use playgate_types::{JsonType, ObjectType};

/// Adds the schemas of types, and of those that they contain.
///
/// # Errors
/// The name under which two types are published.
pub(super) fn add_schemas(
    types: impl Iterator<Item = &'static JsonType>,
    names: &[(&str, &str)],
    schemas: &mut Map<String, Value>,
) -> Result<(), String> {
    let mut open: Vec<_> = types.collect();
    let mut done: Vec<&ObjectType> = Vec::new();
    while let Some(json_type) = open.pop() {
        let object = match json_type {
            JsonType::List(of) | JsonType::Map(of) | JsonType::OrNull(of) => {
                open.push(of);
                continue;
            }
            JsonType::Object(object) => *object,
            _ => continue,
        };
        if done.iter().any(|other| std::ptr::eq(*other, object)) {
            continue;
        }
        done.push(object);
        let (mut properties, mut required) = (Map::new(), Vec::new());
        add_members(object, names, &mut properties, &mut required, &mut open);
        let schema = json!({"type": "object", "properties": properties, "required": required});
        if schemas.insert(object.name.to_owned(), schema).is_some() {
            return Err(format!("{}: described twice", object.name));
        }
    }
    Ok(())
}

fn add_members(
    object: &ObjectType,
    names: &[(&str, &str)],
    properties: &mut Map<String, Value>,
    required: &mut Vec<&'static str>,
    open: &mut Vec<&'static JsonType>,
) {
    for member in object.members {
        if let (true, JsonType::Object(flattened)) = (member.flattened, member.json_type) {
            add_members(flattened, names, properties, required, open);
            continue;
        }
        let json_type = match member.optional {
            true => member.json_type.unless_absent(),
            false => {
                required.push(member.name);
                member.json_type
            }
        };
        open.push(&member.json_type);
        let text = names
            .iter()
            .fold(member.text.to_owned(), |text, (name, value)| {
                text.replace(name, value)
            });
        let schema = with_description(schema(json_type), &text);
        properties.insert(member.name.to_owned(), schema);
    }
}

fn schema(json_type: JsonType) -> Value {
    let named = |name| json!({"$ref": format!("{SCHEMAS}{name}")});
    match json_type {
        JsonType::Any => json!({}),
        JsonType::Boolean => json!({"type": "boolean"}),
        JsonType::Integer => json!({"type": "integer", "format": "int64"}),
        JsonType::Number => json!({"type": "number"}),
        JsonType::Text => json!({"type": "string"}),
        JsonType::AnyObject => json!({"type": "object"}),
        JsonType::OneOf(words) => json!({"type": "string", "enum": words}),
        JsonType::Named(name) => named(name),
        JsonType::Object(object) => named(object.name),
        JsonType::List(of) => json!({"type": "array", "items": schema(*of)}),
        JsonType::Map(of) => json!({"type": "object", "additionalProperties": schema(*of)}),
        JsonType::OrNull(of) => nullable(schema(*of)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde::Serialize;

    use super::*;
    use playgate_types::{Described, UnixSeconds};

    #[derive(Described, Serialize)]
    struct PartBody {
        /// Text of
        /// two lines.
        part: &'static str,
    }

    #[derive(Described, Serialize)]
    #[serde(rename_all = "camelCase")]
    struct WholeBody {
        /// See `Service-Play`.
        begins_at: UnixSeconds,
        /// First.
        ///
        /// Second.
        #[serde(skip_serializing_if = "Option::is_none")]
        r#type: Option<u32>,
        /// Numbers.
        #[serde(rename = "of")]
        numbers: Option<Vec<f64>>,
        /// Words.
        #[described(JsonType::OneOf(&["a", "b"]))]
        word: &'static str,
        /// Parts.
        parts: Vec<PartBody>,
        #[serde(flatten)]
        part: PartBody,
    }

    #[test]
    fn schema_has_the_members_that_serde_writes() {
        const TYPES: &[JsonType] = &[WholeBody::TYPE];
        let mut schemas = Map::new();
        add_schemas(TYPES.iter(), &[("Service-", "X-")], &mut schemas).unwrap();
        let whole = schemas.remove("Whole").unwrap();
        let time = json!({"$ref": "#/components/schemas/Time", "description": "See `X-Play`."});
        let of = json!({"type": ["array", "null"], "items": {"type": "number"}, "description": "Numbers."});
        let part = json!({"$ref": "#/components/schemas/Part"});
        for (name, schema) in [
            ("beginsAt", time),
            (
                "type",
                json!({"type": "integer", "format": "int64", "description": "First.\n\nSecond."}),
            ),
            ("of", of),
            (
                "word",
                json!({"type": "string", "enum": ["a", "b"], "description": "Words."}),
            ),
            (
                "parts",
                json!({"type": "array", "items": part, "description": "Parts."}),
            ),
            (
                "part",
                json!({"type": "string", "description": "Text of two lines."}),
            ),
        ] {
            assert_eq!(whole["properties"][name], schema, "{name}");
        }
        assert_eq!(
            whole["required"],
            json!(["beginsAt", "of", "word", "parts", "part"])
        );
        let written = serde_json::to_value(WholeBody {
            begins_at: UnixSeconds(1),
            r#type: Some(2),
            numbers: None,
            word: "a",
            parts: Vec::new(),
            part: PartBody { part: "p" },
        });
        let names = |value: &Value| {
            value
                .as_object()
                .unwrap()
                .keys()
                .cloned()
                .collect::<BTreeSet<_>>()
        };
        assert_eq!(names(&written.unwrap()), names(&whole["properties"]));
        // The other type is there already.
        let again = add_schemas(TYPES.iter(), &[], &mut schemas);
        assert_eq!(again, Err("Part: described twice".to_owned()));
    }
}
