//! Builds the OpenAPI document of an interface from the description files, the route table and the
//! table of error codes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::About;
use super::description_files::{self, Notes, Operation, Part};
use super::errors::{self, ANYWHERE, BEFORE};
use super::operation::operation;
use super::type_notation::{Note, SCHEMAS, object};
use crate::http::errors::api_error::ErrorCode;
use crate::http::routing::route::{Endpoint, Route};
use crate::http::routing::router::RouteSet;

pub struct Document {
    pub json: Value,
    /// The codes that occur in the document, in the order of their table.
    pub codes: Vec<ErrorCode>,
}

/// What operations refer to: parameters, headers, schemas, examples.
pub(super) struct SharedParts {
    pub path: Notes,
    pub headers: Notes,
    pub schemas: Map<String, Value>,
    pub examples: BTreeMap<String, Value>,
}

impl SharedParts {
    fn from_parts(parts: &[Part]) -> Result<Self, String> {
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
        Ok(shared)
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

/// Builds the document.
///
/// # Errors
/// Inconsistencies between `data/openapi` and the route table. A unit test finds them.
pub fn document(table: RouteSet, about: &About<'_>) -> Result<Document, String> {
    let prefix = about.names.full("");
    let parts = description_files::read(
        table,
        &[("Service-", &prefix), ("https://tv.example", about.base)],
    )?;
    let mut shared = SharedParts::from_parts(&parts)?;
    let mut codes = Vec::from(BEFORE);
    codes.extend(ANYWHERE);
    let mut paths = Map::new();
    let mut described = BTreeSet::new();
    for route in table.routes() {
        let (part, description) = find_operation(&parts, route)?;
        let of_status = errors::codes_of_route(table, route, &description.errors)?;
        let operation = operation(
            route,
            (&part.title, description),
            &of_status,
            &shared,
            about,
        )?;
        codes.extend(of_status.into_values().flatten());
        described.insert(route.label);
        // OpenAPI has no parameter that spans several segments.
        let path = paths
            .entry(route.pattern.replace("{*", "{"))
            .or_insert_with(|| json!({}));
        if let Some(path) = path.as_object_mut() {
            path.insert(route.method.as_str().to_ascii_lowercase(), operation);
        }
    }
    let mut labels = parts.iter().flat_map(|part| part.operations.keys());
    // A description whose route is gone must not stay behind unnoticed.
    if let Some(label) = labels.find(|label| !described.contains(label.as_str())) {
        return Err(format!("{label}: described, but no route has this label"));
    }
    let codes: Vec<_> = ErrorCode::ALL
        .iter()
        .copied()
        .filter(|code| codes.contains(code))
        .collect();
    shared
        .schemas
        .insert("ErrorCode".to_owned(), error_code_schema(&codes));
    embed_examples(&mut shared);
    let interface = parts.get(1).ok_or("the file of the interface is missing")?;
    let tags = parts.iter().filter(|part| !part.operations.is_empty());
    let tags: Vec<_> = tags
        .map(|part| json!({"name": part.title, "description": part.text.trim()}))
        .collect();
    let json = json!({
        "openapi": "3.1.0",
        "info": {
            "title": interface.title,
            "version": env!("CARGO_PKG_VERSION"),
            "description": interface.text.trim(),
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [server(table, about)],
        "tags": tags,
        "paths": paths,
        "components": {
            "securitySchemes": schemes(table, about),
            "headers": answer_headers()?,
            "responses": common_responses(about),
            "schemas": shared.schemas,
        },
    });
    Ok(Document { json, codes })
}

fn find_operation<'a>(
    parts: &'a [Part],
    route: &Route,
) -> Result<(&'a Part, &'a Operation), String> {
    let mut described = parts.iter().filter_map(|part| {
        let description = part.operations.get(route.label)?;
        Some((part, description))
    });
    let found = described.next();
    if described.next().is_some() {
        // One of the two would be shown, depending on the order of the files.
        return Err(format!("{}: described twice", route.label));
    }
    found.ok_or_else(|| format!("{}: not described", route.label))
}

fn embed_examples(shared: &mut SharedParts) {
    for (name, example) in &shared.examples {
        let schema = shared.schemas.get_mut(name).and_then(Value::as_object_mut);
        if let Some(schema) = schema {
            schema.insert("examples".to_owned(), json!([example]));
        }
    }
}

fn error_code_schema(codes: &[ErrorCode]) -> Value {
    // Two codes may have one name with different statuses; the enumeration lists it once.
    let words: BTreeSet<_> = codes.iter().map(|code| code.as_str()).collect();
    let lines: Vec<_> = codes
        .iter()
        .map(|code| {
            let (status, word) = (code.status().as_u16(), code.as_str());
            format!("- `{word}` ({status}): {}", code.meaning())
        })
        .collect();
    json!({
        "type": "string",
        "enum": words,
        "description": format!(
            "A stable identifier of the error, for programs. Later versions may add more.\n\n{}",
            lines.join("\n")
        ),
    })
}

fn server(table: RouteSet, about: &About<'_>) -> Value {
    match table {
        RouteSet::Public => json!({
            "url": about.base,
            "description": format!("The {} environment.", about.environment.as_str()),
        }),
        RouteSet::Ops => json!({
            "url": "/",
            "description": format!(
                "The operations listener (`ops.listen`) of the {} environment.",
                about.environment.as_str()
            ),
        }),
    }
}

fn schemes(table: RouteSet, about: &About<'_>) -> Value {
    match table {
        RouteSet::Public => json!({
            "PartnerToken": {
                "type": "apiKey",
                "in": "header",
                "name": about.names.full("AccessToken"),
                "description": "The partner's access token. It identifies the partner.",
            },
            "PartnerTokenInQuery": {
                "type": "apiKey",
                "in": "query",
                "name": "accessToken",
                "description": "The partner's access token in the query, for players that accept only an address.",
            },
            "UserToken": {
                "type": "http",
                "scheme": "bearer",
                "description": "The User Authorization Token that sign-up and login return.",
            },
        }),
        RouteSet::Ops => json!({
            "OperatorToken": {
                "type": "http",
                "scheme": "bearer",
                "description": "The token that `playgate operator add` prints.",
            },
        }),
    }
}

pub(super) fn security(route: &Route) -> Value {
    match route.endpoint {
        Endpoint::Open(_) => json!([]),
        Endpoint::Partner(_) if route.query_token => {
            json!([{"PartnerToken": []}, {"PartnerTokenInQuery": []}])
        }
        Endpoint::Partner(_) => json!([{"PartnerToken": []}]),
        Endpoint::User(_) => json!([{"PartnerToken": [], "UserToken": []}]),
        Endpoint::Operator(_) => json!([{"OperatorToken": []}]),
    }
}

const ANSWER_HEADERS: [(&str, &str); 10] = [
    (
        "X-Request-Id",
        "string: The id of the request if it sent a valid one, otherwise a new one. The server logs it.",
    ),
    ("Retry-After", "integer: Seconds to wait before a retry."),
    (
        "RateLimit",
        "string: The limit that was exceeded, such as `\"login-account\";r=0;t=60`: no requests left for 60 seconds.",
    ),
    (
        "RateLimit-Policy",
        "string: The policy of that limit, such as `\"login-account\";q=10;w=900`: 10 requests in 900 seconds.",
    ),
    (
        "WWW-Authenticate",
        "string: Which token is missing or not valid.",
    ),
    (
        "ETag",
        "string: A strong entity tag. It differs for each content coding.",
    ),
    (
        "Cache-Control",
        "string: How long the response may be cached; never beyond its next change.",
    ),
    (
        "Deprecation",
        "string: When the operation was deprecated (RFC 9745).",
    ),
    (
        "Link",
        "string: The address that replaces this one, with `rel=\"successor-version\"`.",
    ),
    (
        "Sunset",
        "string: When the operation will be removed, if that is decided (RFC 8594).",
    ),
];

fn answer_headers() -> Result<Map<String, Value>, String> {
    ANSWER_HEADERS
        .into_iter()
        .map(|(name, note)| Ok((name.to_owned(), header(Note::read(note)?))))
        .collect()
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

/// The name of the error response that all operations share for a status.
pub(super) fn common_name(status: u16) -> String {
    format!("Anywhere{status}")
}

fn common_responses(about: &About<'_>) -> Map<String, Value> {
    let mut of_status = errors::Codes::new();
    for code in ANYWHERE {
        of_status
            .entry(code.status().as_u16())
            .or_default()
            .push(code);
    }
    of_status
        .into_iter()
        .map(|(status, codes)| {
            let answer = refusal(
                status,
                &codes,
                Form {
                    flat: false,
                    soap: false,
                    page: false,
                },
                about,
            );
            (common_name(status), answer)
        })
        .collect()
}

#[derive(Clone, Copy)]
pub(super) struct Form {
    /// The message at top level as well, as the login routes have it.
    pub flat: bool,
    pub soap: bool,
    pub page: bool,
}

/// Builds the response for an error status: the meanings of its codes, and an example of each.
pub(super) fn refusal(status: u16, codes: &[ErrorCode], form: Form, about: &About<'_>) -> Value {
    let lines: Vec<_> = codes
        .iter()
        .map(|code| format!("- `{}`: {}", code.as_str(), code.meaning()))
        .collect();
    let words: Vec<_> = codes.iter().map(|code| code.as_str()).collect();
    let examples: Map<_, _> = codes
        .iter()
        .map(|code| {
            (
                code.as_str().to_owned(),
                json!({"value": example(*code, form.flat, about)}),
            )
        })
        .collect();
    let json = json!({
        "schema": {
            "allOf": [
                {"$ref": format!("{SCHEMAS}Error")},
                {"properties": {"error": {"properties": {"code": {"enum": words}}}}},
            ],
        },
        "examples": examples,
    });
    let content = match form {
        Form { page: true, .. } => json!({"text/html": {"schema": {"type": "string"}}}),
        Form { soap: true, .. } => {
            json!({"application/json": json, "text/xml": {"schema": {"type": "string"}}})
        }
        Form { .. } => json!({"application/json": json}),
    };
    let more: &[&str] = match status {
        401 => &["WWW-Authenticate"],
        429 => &["Retry-After", "RateLimit", "RateLimit-Policy"],
        503 => &["Retry-After"],
        _ => &[],
    };
    json!({
        "description": lines.join("\n"),
        "headers": header_refs(["X-Request-Id"].iter().chain(more).copied()),
        "content": content,
    })
}

fn example(code: ErrorCode, flat: bool, about: &About<'_>) -> Value {
    let mut body = json!({"error": {
        "code": code.as_str(),
        "message": code.meaning(),
        "user_message": about.messages.pick(code, Some("en"), None),
    }});
    if let Some(members) = body.as_object_mut().filter(|_| flat) {
        members.insert("message".to_owned(), code.meaning().into());
    }
    body
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
