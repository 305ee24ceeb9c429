//! What operations of a description refer to: parameters, headers, schemas and examples.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::described::add_schemas;
use super::description_files::{Notes, Part, types};
use super::type_notation::{Note, SCHEMAS, object};

pub(super) struct SharedParts {
    pub path: Notes,
    pub headers: Notes,
    pub schemas: Map<String, Value>,
    pub examples: BTreeMap<String, Value>,
}

impl SharedParts {
    pub(super) fn from_parts(parts: &[Part], names: &[(&str, &str)]) -> Result<Self, String> {
        let mut shared = Self {
            path: Notes::new(),
            headers: Notes::new(),
            schemas: Map::new(),
            examples: BTreeMap::new(),
        };
        for part in parts {
            shared.path.extend(part.path.clone());
            shared.headers.extend(part.headers.clone());
            shared.schemas.extend(part.schemas.clone());
            for (sent, objects) in [(false, &part.objects), (true, &part.requests)] {
                for (name, members) in objects {
                    let members = expand_members(members, parts)?;
                    let schema = object(members.iter(), sent)?;
                    shared.schemas.insert(name.clone(), schema);
                }
            }
            for (name, example) in &part.examples {
                let value = serde_json::from_str(example);
                let value = value.map_err(|error| format!("example of {name}: {error}"))?;
                shared.examples.insert(name.clone(), value);
            }
        }
        add_schemas(types(), names, &mut shared.schemas)?;
        inline_references(&mut shared.schemas)?;
        Ok(shared)
    }

    pub(super) fn embed_examples(&mut self) {
        for (name, example) in &self.examples {
            let schema = self.schemas.get_mut(name).and_then(Value::as_object_mut);
            if let Some(schema) = schema {
                schema.insert("examples".to_owned(), json!([example]));
            }
        }
    }

    fn is_list(&self, schema: &Value) -> bool {
        let named = schema.get("$ref").and_then(Value::as_str);
        match named.and_then(|place| self.schemas.get(place.strip_prefix(SCHEMAS)?)) {
            Some(schema) => self.is_list(schema),
            None => schema.get("type").is_some_and(|kind| kind == "array"),
        }
    }

    pub(super) fn example(&self, schema: &Value) -> Option<Value> {
        if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
            let name = name.strip_prefix(SCHEMAS)?;
            return match self.examples.get(name) {
                Some(example) => Some(example.clone()),
                None => self.example(self.schemas.get(name)?),
            };
        }
        if let Some(example) = schema.pointer("/examples/0") {
            return Some(example.clone());
        }
        if let Some(item) = schema.get("items") {
            return Some(json!([self.example(item)?]));
        }
        let item = schema.get("additionalProperties")?;
        Some(json!({"news": self.example(item)?}))
    }
}

/// Replaces each schema that refers to another and adds to it by the whole schema: generators ignore or
/// reject a component that is a `$ref`.
fn inline_references(schemas: &mut Map<String, Value>) -> Result<(), String> {
    let names: Vec<_> = schemas.keys().cloned().collect();
    for name in names {
        let Some(Value::Object(schema)) = schemas.get(&name) else {
            continue;
        };
        let Some(target) = schema.get("$ref").and_then(Value::as_str) else {
            continue;
        };
        let target = target
            .strip_prefix(SCHEMAS)
            .and_then(|name| schemas.get(name));
        let mut whole = target
            .and_then(Value::as_object)
            .filter(|target| !target.contains_key("$ref"))
            .cloned()
            .ok_or_else(|| format!("{name}: refers to no whole schema"))?;
        let members = schema.iter().filter(|(member, _)| *member != "$ref");
        whole.extend(members.map(|(member, value)| (member.clone(), value.clone())));
        schemas.insert(name, Value::Object(whole));
    }
    Ok(())
}

fn expand_members(members: &Notes, parts: &[Part]) -> Result<Notes, String> {
    let mut members = members.clone();
    if let Some(base) = members.remove("...") {
        let mut objects = parts
            .iter()
            .flat_map(|part| [&part.objects, &part.requests]);
        let found = objects.find_map(|objects| objects.get(&base));
        let more = expand_members(found.ok_or_else(|| format!("no object {base}"))?, parts)?;
        // The members of the object itself replace those of its base.
        for (name, note) in more {
            members.entry(name).or_insert(note);
        }
    }
    Ok(members)
}

pub(super) fn parameter(place: &str, name: &str, note: Note<'_>, shared: &SharedParts) -> Value {
    let mut parameter = json!({
        "in": place,
        "name": name,
        "required": !note.optional,
        "description": note.text,
    });
    if let Some(members) = parameter.as_object_mut() {
        // A list is one comma-separated value, not a repeated parameter.
        if place == "query" && shared.is_list(&note.schema) {
            members.insert("style".to_owned(), "form".into());
            members.insert("explode".to_owned(), false.into());
        }
        if let Some(example) = shared.example(&note.schema) {
            members.insert("example".to_owned(), example);
        }
        members.insert("schema".to_owned(), note.schema);
    }
    parameter
}

pub(super) fn header(note: Note<'_>) -> Value {
    json!({"description": note.text, "schema": note.schema})
}

pub(super) fn header_refs<'a>(names: impl IntoIterator<Item = &'a str>) -> Map<String, Value> {
    names
        .into_iter()
        .map(|name| {
            let place = format!("#/components/headers/{name}");
            (name.to_owned(), json!({"$ref": place}))
        })
        .collect()
}
