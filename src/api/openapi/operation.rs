//! Builds one operation of the OpenAPI document.

use serde_json::{Map, Value, json};

use super::description_files::{BodyDescription, Operation, OtherContent};
use super::error_response::{ERROR_BODY, Form, common_name, error_response, error_schema};
use super::errors::{Codes, are_common};
use super::shared_parts::{SharedParts, header, header_refs, parameter};
use super::type_notation::Note;
use playgate_http::{About, BodyRule, Endpoint, Route};
use playgate_types::Role;

const JSON: &str = "application/json";

pub(super) fn operation(
    route: &Route,
    (tag, description): (&str, &Operation),
    codes: &Codes,
    shared: &SharedParts,
    about: &About<'_>,
) -> Result<Value, String> {
    let mut text = description.text.trim().to_owned();
    // What the route table knows is taken from it, so that description and behaviour cannot differ.
    if let Some(successor) = route.deprecated {
        text.push_str(&format!("\n\nDeprecated: use `{successor}`."));
    }
    if let Some(roles) = route.roles {
        let roles: Vec<_> = roles.iter().map(|role: &Role| role.as_str()).collect();
        text.push_str(&format!("\n\nAllowed roles: {}.", roles.join(", ")));
    }
    let mut responses = successes(route, description, shared)?;
    let form = Form {
        flat: route.pattern.starts_with("/api/login/"),
        soap: route.speaks_soap,
        page: route.is_page,
    };
    for (status, codes) in codes {
        // Pages and SOAP routes have their own form of errors, so the shared JSON response does not fit.
        let common = are_common(codes) && !form.page && !form.soap;
        let response = match common {
            true => json!({"$ref": format!("#/components/responses/{}", common_name(*status))}),
            false => error_response(*status, codes, form, about),
        };
        merge(&mut responses, status.to_string(), response);
    }
    let mut operation = json!({
        "operationId": route.operation_id,
        "tags": [tag],
        "summary": description.summary,
        "description": text.trim(),
        "parameters": parameters(route, description, shared)?,
        "responses": responses,
        "security": security(route),
    });
    if let Some(members) = operation.as_object_mut() {
        if let Some(send) = &description.send {
            members.insert("requestBody".to_owned(), request(route, send, shared)?);
        }
        if route.deprecated.is_some() {
            members.insert("deprecated".to_owned(), true.into());
        }
    }
    Ok(operation)
}

/// Adds an error response. A status can be both a success and an error of an operation; then the
/// response has both descriptions.
fn merge(responses: &mut Map<String, Value>, status: String, refusal: Value) {
    let Some(success) = responses.get_mut(&status).and_then(Value::as_object_mut) else {
        responses.insert(status, refusal);
        return;
    };
    let (Some(Value::String(text)), Some(more)) = (
        success.get_mut("description"),
        refusal.get("description").and_then(Value::as_str),
    ) else {
        return;
    };
    *text = format!("{text}\n\n{more}");
    // Both bodies are possible under this status.
    let content = refusal.get("content").and_then(Value::as_object);
    if let (Some(Value::Object(content)), Some(more)) = (success.get_mut("content"), content) {
        for (media, body) in more {
            let known = content.entry(media.clone()).or_insert_with(|| body.clone());
            if known != body
                && let (Some(schema), Some(more)) = (known.get_mut("schema"), body.get("schema"))
            {
                *schema = json!({"anyOf": [schema.take(), more]});
            }
        }
    }
}

fn parameters(
    route: &Route,
    description: &Operation,
    shared: &SharedParts,
) -> Result<Vec<Value>, String> {
    let mut parameters = Vec::new();
    for name in names_in(route.pattern) {
        // Described once: a name means the same in every path.
        let note = shared.path.get(name);
        let note = note.ok_or_else(|| {
            format!(
                "{}: path parameter {{{name}}} is not described",
                route.label
            )
        })?;
        parameters.push(parameter("path", name, Note::read(note)?, shared));
    }
    for (name, note) in &description.query {
        parameters.push(parameter("query", name, Note::read(note)?, shared));
    }
    for header in &description.headers {
        let (name, note) = match header.split_once(": ") {
            Some((name, note)) => (name, Some(note)),
            None => (header.as_str(), None),
        };
        let (name, optional) = match name.strip_suffix('?') {
            Some(name) => (name, true),
            None => (name, false),
        };
        let note = note.or_else(|| shared.headers.get(name).map(String::as_str));
        let note =
            note.ok_or_else(|| format!("{}: header {name} is not described", route.label))?;
        let note = Note {
            optional,
            ..Note::read(note)?
        };
        parameters.push(parameter("header", name, note, shared));
    }
    if description.kept {
        let note =
            Note::read("string?: The `ETag` of an earlier response; 304 if it is still current.")?;
        parameters.push(parameter("header", "If-None-Match", note, shared));
    }
    Ok(parameters)
}

fn names_in(pattern: &str) -> impl Iterator<Item = &str> {
    pattern.split('/').filter_map(|segment| {
        let name = segment.strip_prefix('{')?.strip_suffix('}')?;
        Some(name.trim_start_matches('*'))
    })
}

fn request(route: &Route, send: &BodyDescription, shared: &SharedParts) -> Result<Value, String> {
    let (content, text, optional) = content(send, shared)?;
    let limit = route.body.limit();
    let limit = match limit {
        _ if limit >= 1 << 30 => format!("{} GiB", limit >> 30),
        _ if limit >= 1 << 20 => format!("{} MiB", limit >> 20),
        _ => format!("{} KiB", limit >> 10),
    };
    let unpacked = match route.body {
        BodyRule::Gzip(_) => ", measured after decompression if `Content-Encoding` is gzip",
        BodyRule::Ignored | BodyRule::Whole(_) | BodyRule::Streamed(_) => "",
    };
    Ok(json!({
        "description": format!("{text} At most {limit}{unpacked}.").trim(),
        "required": !optional,
        "content": content,
    }))
}

fn content<'a>(
    content: &'a BodyDescription,
    shared: &SharedParts,
) -> Result<(Value, &'a str, bool), String> {
    let (note, other) = match content {
        BodyDescription::Json(note) => (Some(note), None),
        BodyDescription::Other(other) => (other.r#type.as_ref(), Some(other)),
    };
    let note = note.map(|note| Note::read(note)).transpose()?;
    let optional = note.as_ref().is_some_and(|note| note.optional);
    let text = match (&note, other) {
        (_, Some(other)) => other.text.as_str(),
        (Some(note), None) => note.text,
        (None, None) => "",
    };
    let written = other.and_then(|other| other.example.as_deref());
    let mut bodies = Map::new();
    if let Some(note) = note {
        let example = match written {
            Some(text) => Some(serde_json::from_str(text).map_err(|error| error.to_string())?),
            None => shared.example(&note.schema),
        };
        bodies.insert(
            JSON.to_owned(),
            with_example(json!({"schema": note.schema}), example),
        );
    }
    let with_media = other.into_iter().flat_map(|other: &OtherContent| {
        let media = other.media.iter();
        media.map(move |media| (media, other))
    });
    for (media, other) in with_media {
        let schema = media_schema(media, other)?;
        // The example in the description is that of the JSON body, if there is one.
        let written = written.filter(|_| !bodies.contains_key(JSON));
        let example = other.examples.get(media).map(String::as_str).or(written);
        let example = example.map(Value::from).or_else(|| shared.example(&schema));
        bodies.insert(
            media.clone(),
            with_example(json!({"schema": schema}), example),
        );
    }
    Ok((Value::Object(bodies), text, optional))
}

fn media_schema(media: &str, content: &OtherContent) -> Result<Value, String> {
    let essence = media.split(';').next().unwrap_or_default();
    let of = content.of.as_deref().map(Note::read).transpose()?;
    Ok(match (essence, of) {
        ("application/x-ndjson", Some(line)) => json!({
            "type": "string",
            "contentMediaType": essence,
            // Each line is an item.
            "contentSchema": {"type": "array", "items": line.schema},
        }),
        (_, Some(form)) => form.schema,
        // OpenAPI 3.1 expects no type here. Without one, generators make no method, or one without a body.
        ("application/octet-stream" | "*/*", None) => json!({"type": "string", "format": "binary"}),
        (_, None) => json!({"type": "string"}),
    })
}

fn with_example(mut body: Value, example: Option<Value>) -> Value {
    if let (Some(members), Some(example)) = (body.as_object_mut(), example) {
        members.insert("example".to_owned(), example);
    }
    body
}

fn successes(
    route: &Route,
    description: &Operation,
    shared: &SharedParts,
) -> Result<Map<String, Value>, String> {
    let mut responses = Map::new();
    for (status, returned) in &description.returns {
        let (content, text, _) = content(returned, shared)?;
        let mut names = vec!["X-Request-Id"];
        if description.kept {
            names.extend(["ETag", "Cache-Control"]);
        }
        if route.deprecated.is_some() {
            names.extend(["Deprecation", "Link", "Sunset"]);
        }
        let mut headers = header_refs(names);
        if let BodyDescription::Other(other) = returned {
            for (name, note) in &other.headers {
                headers.insert(name.clone(), header(Note::read(note)?));
            }
        }
        let mut response = json!({"description": text, "headers": headers});
        let bodies = content
            .as_object()
            .is_some_and(|content| !content.is_empty());
        if let Some(members) = response.as_object_mut().filter(|_| bodies) {
            members.insert("content".to_owned(), content);
        }
        responses.insert(status.clone(), response);
    }
    if !responses.keys().any(|status| status.starts_with('2')) {
        // An operation that only redirects has no body to describe, but clients expect a type.
        let body = with_example(
            json!({"schema": error_schema()}),
            shared.examples.get(ERROR_BODY).cloned(),
        );
        let error = json!({"description": "Any other error.", "content": {JSON: body}});
        responses.insert("default".to_owned(), error);
    }
    if description.kept {
        let headers = header_refs(["X-Request-Id", "ETag", "Cache-Control"]);
        let text = "Not modified: the tag in `If-None-Match` is current.";
        responses.insert(
            "304".to_owned(),
            json!({"description": text, "headers": headers}),
        );
    }
    Ok(responses)
}

fn security(route: &Route) -> Value {
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
