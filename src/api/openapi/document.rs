//! Builds the OpenAPI document of an interface from the description files, the route table and the
//! table of error codes.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::description_files::{self, Operation, Part};
use super::error_response::{common_responses, error_code_schema};
use super::errors::{self, COMMON_ERRORS, ROUTING_ERRORS};
use super::operation::operation;
use super::shared_parts::{SharedParts, header};
use super::type_notation::Note;
use playgate_http::{About, ErrorCode, Route, RouteSet, Router};

pub struct Document {
    pub json: Value,
    /// The codes that occur in the document, in the order of their table.
    pub codes: Vec<ErrorCode>,
}

/// Builds the document.
///
/// # Errors
/// Inconsistencies between `data/openapi` and the route table. A unit test finds them.
pub fn document(router: &Router, about: &About<'_>) -> Result<Document, String> {
    let table = router.set();
    let prefix = about.names.full("");
    let names = [("Service-", &*prefix), ("https://tv.example", about.base)];
    let parts = description_files::read(table, &names)?;
    let mut shared = SharedParts::from_parts(&parts, &names)?;
    let mut codes = Vec::from(ROUTING_ERRORS);
    codes.extend(COMMON_ERRORS);
    let mut paths = Map::new();
    let mut described = BTreeSet::new();
    for route in router.routes().iter().filter(|route| is_described(route)) {
        // A route without a description is an error here, which a test finds.
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
        return Err(format!(
            "{label}: described, but no described route has this label"
        ));
    }
    let codes: Vec<_> = ErrorCode::ALL
        .iter()
        .copied()
        .filter(|code| codes.contains(code))
        .collect();
    shared
        .schemas
        .insert("ErrorCode".to_owned(), error_code_schema(&codes));
    shared.embed_examples();
    let interface = parts.get(1).ok_or("the file of the interface is missing")?;
    let tags = parts.iter().filter(|part| !part.operations.is_empty());
    let tags: Vec<_> = tags
        .map(|part| json!({"name": part.title, "description": part.text.trim()}))
        .collect();
    let mut json = json!({
        "openapi": "3.1.0",
        "info": {
            "title": interface.title,
            "version": env!("CARGO_PKG_VERSION"),
            "description": interface.text.trim(),
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
            "contact": {"name": "The operator of this service", "url": about.base},
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
    // Both interfaces share their types, and each document shows its own only.
    remove_unused_components(&mut json)?;
    Ok(Document { json, codes })
}

/// Whether the description contains the route. A path that ends with a slash is a web page, where relative
/// addresses need the slash; it is no operation of an interface, and linters reject its path.
pub fn is_described(route: &Route) -> bool {
    route.pattern == "/" || !route.pattern.ends_with('/')
}

/// Removes the components that no operation refers to: both interfaces read the file of common types, and
/// neither uses all of them.
fn remove_unused_components(document: &mut Value) -> Result<(), String> {
    let used = referenced(document)?;
    for kind in ["headers", "responses", "schemas"] {
        let all = document.pointer_mut(&format!("/components/{kind}"));
        if let Some(all) = all.and_then(Value::as_object_mut) {
            all.retain(|name, _| used.contains(&format!("#/components/{kind}/{name}")));
        }
    }
    Ok(())
}

fn referenced(document: &Value) -> Result<BTreeSet<String>, String> {
    let mut found = BTreeSet::new();
    let mut open: Vec<_> = document.get("paths").into_iter().collect();
    while let Some(value) = open.pop() {
        match value {
            Value::Object(members) => {
                let place = members.get("$ref").and_then(Value::as_str);
                // Each reference is followed once: types may refer to one another in a circle.
                if let Some(place) = place.filter(|place| found.insert((*place).to_owned())) {
                    let target = place.strip_prefix('#').and_then(|at| document.pointer(at));
                    open.push(target.ok_or_else(|| format!("{place}: does not exist"))?);
                }
                open.extend(members.values());
            }
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
    Ok(found)
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
