//! Compares each response with the OpenAPI description of its operation: status, code, entity tag, media type, and the
//! members and types of the body, no more and no fewer.

use std::sync::LazyLock;

use http::Method;
use playgate_api::openapi::{document, is_described};
use playgate_api::route_table::ROUTERS;
use playgate_config::HttpSettings;
use playgate_http::{About, HeaderNames, Messages, Route, RouteMatch, RouteSet};
use serde_json::{Map, Value};

use crate::support::journal_completeness;
use crate::support::raw_http::{Answer, WATCH};

/// The descriptions of both listeners.
pub static DOCUMENTS: LazyLock<[(RouteSet, Value); 2]> =
    LazyLock::new(|| [RouteSet::Public, RouteSet::Ops].map(|table| (table, described(table))));

fn described(table: RouteSet) -> Value {
    let settings = HttpSettings::default();
    let names = HeaderNames::new(&settings.header_prefix).unwrap();
    let messages = Messages::built_in("en").unwrap();
    let about = About::new(&settings, &names, &messages);
    document(ROUTERS.of(table), &about)
        .unwrap_or_else(|why| panic!("{why}"))
        .json
}

/// Compares every response to [`ask`](super::raw_http::ask) from now on.
pub fn watch() {
    WATCH.get_or_init(|| {
        |address, request, answer| {
            compare(request, answer);
            journal_completeness::note(address, request, answer);
        }
    });
}

pub fn compare(request: &[u8], answer: &Answer) {
    let Some((method, target)) = asked(request) else {
        return;
    };
    let path = target.split('?').next().unwrap();
    let status = answer.status.to_string();
    let mut found: Vec<_> = DOCUMENTS
        .iter()
        .filter_map(|(table, document)| Some((route(*table, &method, path)?, document)))
        .filter(|(route, _)| is_described(route))
        .collect();
    // If both listeners have the path, takes the one that describes this status.
    found.sort_by_key(|(route, document)| {
        operation(document, route)["responses"]
            .get(&status)
            .is_none()
    });
    // Requests of no operation are not compared.
    let Some(&(route, document)) = found.first() else {
        return;
    };
    // The path is malformed or belongs to the other listener. A response to HEAD has no code, so it may be either.
    let no_path = method == "HEAD" || answer.body.ends_with(b"\"code\":\"PATH_NOT_FOUND\"}}");
    // The listeners share paths, and one of them answers only for its own hosts.
    if answer.status == 404 && no_path || answer.status == 421 {
        return;
    }
    // A fault of the lab may send any response.
    if answer.header("x-playgate-fault").is_some() {
        return;
    }
    let label = route.label;
    let responses = &operation(document, route)["responses"];
    let what = format!(
        "{label}: {status} {}",
        String::from_utf8_lossy(&answer.body)
    );
    let response = responses.get(&status);
    let response = response.unwrap_or_else(|| panic!("the status is not described: {what}"));
    let response = resolve(document, response);
    // Whoever reads the description relies on the tag to revalidate.
    let tag = answer.header("etag");
    let is_tag_described = response.pointer("/headers/ETag").is_some();
    assert_eq!(
        tag.is_some(),
        is_tag_described,
        "entity tag {tag:?}: {what}"
    );
    if answer.body.is_empty() {
        return;
    }
    let content = response.get("content").and_then(Value::as_object);
    let content = content.unwrap_or_else(|| panic!("no body is described: {what}"));
    let media = answer.header("content-type").unwrap_or_default();
    let body = content
        .iter()
        .find(|(known, _)| *known == "*/*" || essence(known) == essence(media))
        .unwrap_or_else(|| panic!("{media} is not described: {what}"));
    // Compressed bodies are not compared.
    if essence(media) == "application/json"
        && answer.header("content-encoding").is_none()
        && let Some(schema) = body.1.get("schema")
    {
        let body = answer.json();
        if let Err(why) = fits(document, schema, &body).and_then(|()| has_code(response, &body)) {
            panic!("{why}\n{what}");
        }
    }
}

/// Checks that the description lists the error code for the status.
pub fn has_code(response: &Value, body: &Value) -> Result<(), String> {
    let code = body.pointer("/error/code");
    match code.is_none_or(|code| list(response, "x-error-codes").contains(code)) {
        true => Ok(()),
        false => Err(format!("the code is not described: {body}")),
    }
}

/// Reads method and target of a request that was sent in one piece.
pub fn asked(request: &[u8]) -> Option<(Method, &str)> {
    let end = request.iter().position(|byte| *byte == b'\r')?;
    let line = std::str::from_utf8(&request[..end]).ok()?;
    let mut words = line.split(' ');
    let method = Method::from_bytes(words.next()?.as_bytes()).ok()?;
    Some((method, words.next()?))
}

pub fn route(table: RouteSet, method: &Method, path: &str) -> Option<&'static Route> {
    match ROUTERS.of(table).find(method, path) {
        Ok(RouteMatch::Route(_, route, _)) => Some(route),
        Ok(RouteMatch::Path(_)) | Err(_) => None,
    }
}

pub fn operation<'a>(document: &'a Value, route: &Route) -> &'a Value {
    let path = route.pattern.replace("{*", "{");
    &document["paths"][path][route.method.as_str().to_lowercase()]
}

fn essence(media: &str) -> &str {
    media.split(';').next().unwrap().trim()
}

pub fn resolve<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value.get("$ref").and_then(Value::as_str) {
        Some(pointer) => document
            .pointer(pointer.strip_prefix('#').unwrap())
            .unwrap(),
        None => value,
    }
}

/// Checks a value against a schema, except patterns and formats. Undescribed members are allowed only if the schema
/// says so.
pub fn fits(document: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("{what}: {value} is not {schema}"));
    if schema.get("$ref").is_some() {
        fits(document, resolve(document, schema), value)?;
    }
    for all in list(schema, "allOf") {
        fits(document, all, value)?;
    }
    for combinator in ["anyOf", "oneOf"] {
        let alternatives = list(schema, combinator);
        if !alternatives.is_empty()
            && !alternatives
                .iter()
                .any(|one| fits(document, one, value).is_ok())
        {
            return wrong("none of several");
        }
    }
    if schema.get("const").is_some_and(|only| only != value) {
        return wrong("const");
    }
    let words = list(schema, "enum");
    if !words.is_empty() && !words.contains(value) {
        return wrong("enum");
    }
    let kinds = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.as_slice(),
        Some(kind) => std::slice::from_ref(kind),
        None => &[],
    };
    if !kinds.is_empty()
        && !kinds
            .iter()
            .any(|kind| is_of(kind.as_str().unwrap(), value))
    {
        return wrong("type");
    }
    if !within(schema, value) {
        return wrong("bounds");
    }
    if let Some(items) = value.as_array()
        && let Some(schema) = schema.get("items")
    {
        for item in items {
            fits(document, schema, item)?;
        }
    }
    match value {
        Value::Object(members) => object(document, schema, members),
        _ => Ok(()),
    }
}

fn list<'a>(schema: &'a Value, name: &str) -> &'a [Value] {
    schema
        .get(name)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn is_of(kind: &str, value: &Value) -> bool {
    match kind {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        other => panic!("the type {other}"),
    }
}

fn within(schema: &Value, value: &Value) -> bool {
    let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
    let size = match value {
        Value::String(text) => [(text.chars().count() as f64, "minLength", "maxLength")],
        Value::Array(items) => [(items.len() as f64, "minItems", "maxItems")],
        Value::Number(number) => [(number.as_f64().unwrap(), "minimum", "maximum")],
        _ => return true,
    };
    size.into_iter().all(|(size, least, most)| {
        bound(least).is_none_or(|least| size >= least)
            && bound(most).is_none_or(|most| size <= most)
    })
}

fn object(document: &Value, schema: &Value, members: &Map<String, Value>) -> Result<(), String> {
    for name in list(schema, "required") {
        if !members.contains_key(name.as_str().unwrap()) {
            return Err(format!("{name} is missing"));
        }
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    let others = schema.get("additionalProperties");
    for (name, value) in members {
        match properties
            .and_then(|properties| properties.get(name))
            .or(others)
        {
            Some(Value::Bool(true)) => {}
            Some(Value::Bool(false)) => return Err(format!("{name} is not described")),
            Some(schema) => fits(document, schema, value)?,
            None if properties.is_some() && schema.get("type").is_some() => {
                return Err(format!("{name} is not described"));
            }
            None => {}
        }
    }
    Ok(())
}
