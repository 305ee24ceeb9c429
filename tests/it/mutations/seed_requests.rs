//! Valid requests of every route, generated from the API descriptions and the fixtures, so that a new route is included
//! automatically.

use playgate_api::openapi::is_described;
use playgate_api::route_table::ROUTERS;
use playgate_http::{Endpoint, Route, RouteSet};
use serde_json::Value;

use crate::mutations::fixtures::BatchData;
use crate::mutations::rng::Rng;
use crate::support::openapi_conformance::{DOCUMENTS, operation, resolve};

#[derive(Clone)]
pub struct Request {
    pub label: &'static str,
    pub table: RouteSet,
    pub method: String,
    pub path: String,
    pub query: Vec<(String, String)>,
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: Body,
    pub chunked: bool,
}

#[derive(Clone)]
pub enum Body {
    None,
    Json(Value),
    Bytes(Vec<u8>),
}

/// Returns the routes of both listeners, each with its API description.
pub fn routes() -> Vec<(RouteSet, &'static Route, &'static Value)> {
    let of = |(table, document): &'static (RouteSet, Value)| {
        // Web pages are not described.
        let routes = ROUTERS
            .of(*table)
            .routes()
            .iter()
            .filter(|route| is_described(route));
        routes.map(move |route| (*table, route, document))
    };
    DOCUMENTS.iter().flat_map(of).collect()
}

impl Request {
    /// Makes a request that succeeds, with a random choice of the optional parts.
    pub fn seed(
        (table, route, document): (RouteSet, &'static Route, &Value),
        data: &BatchData,
        rng: &mut Rng,
    ) -> Self {
        let description = operation(document, route);
        let mut request = Self {
            label: route.label,
            table,
            method: route.method.as_str().to_owned(),
            path: route.pattern.to_owned(),
            query: Vec::new(),
            headers: vec![("Host".to_owned(), b"localhost".to_vec())],
            body: Body::None,
            chunked: false,
        };
        request.add_tokens(route, data, rng);
        for parameter in description["parameters"].as_array().unwrap() {
            let parameter = resolve(document, parameter);
            let name = parameter["name"].as_str().unwrap();
            let known = data.value(route.label, name).map(str::to_owned);
            let value = known.unwrap_or_else(|| written(&example(document, &parameter["schema"])));
            // A value that the fixtures have for this route only is required.
            let wanted = parameter["required"] == true
                || data.has_for_route(route.label, name)
                || rng.once_in(3);
            match parameter["in"].as_str().unwrap() {
                "path" => {
                    let path = request.path.replace(&format!("{{*{name}}}"), &value);
                    request.path = path.replace(&format!("{{{name}}}"), &escaped(&value));
                }
                "query" if wanted => request.query.push((name.to_owned(), value)),
                "header" if wanted => request.headers.push((name.to_owned(), value.into_bytes())),
                _ => {}
            }
        }
        request.body = body(description, document, route, data, rng);
        request
    }

    /// Adds the tokens that the route requires.
    fn add_tokens(&mut self, route: &Route, data: &BatchData, rng: &mut Rng) {
        let mut add =
            |name: &str, value: String| self.headers.push((name.to_owned(), value.into_bytes()));
        match route.endpoint {
            Endpoint::Open(_) => {}
            Endpoint::Partner(_) if route.query_token && rng.once_in(2) => {
                self.query
                    .push(("accessToken".to_owned(), data.partner.clone()));
            }
            Endpoint::Partner(_) => add("Service-AccessToken", data.partner.clone()),
            Endpoint::User(_) => {
                add("Service-AccessToken", data.partner.clone());
                add("Authorization", format!("Bearer {}", data.user));
            }
            Endpoint::Operator(_) => add("Authorization", format!("Bearer {}", data.admin)),
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = format!("{} {}", self.method, self.path).into_bytes();
        for (nth, (name, value)) in self.query.iter().enumerate() {
            bytes.push(if nth == 0 { b'?' } else { b'&' });
            bytes.extend(format!("{}={}", escaped(name), escaped(value)).into_bytes());
        }
        bytes.extend_from_slice(b" HTTP/1.1\r\n");
        for (name, value) in &self.headers {
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(b": ");
            bytes.extend_from_slice(value);
            bytes.extend_from_slice(b"\r\n");
        }
        let body = match &self.body {
            Body::None => Vec::new(),
            Body::Json(value) => value.to_string().into_bytes(),
            Body::Bytes(bytes) => bytes.clone(),
        };
        if self.chunked {
            bytes.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
            for chunk in body.chunks(97) {
                bytes.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
                bytes.extend_from_slice(chunk);
                bytes.extend_from_slice(b"\r\n");
            }
            bytes.extend_from_slice(b"0\r\n\r\n");
            return bytes;
        }
        if !body.is_empty() {
            bytes.extend(format!("Content-Length: {}\r\n", body.len()).into_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend(body);
        bytes
    }
}

/// Percent-encodes characters with a meaning in a query or a path.
pub fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~,:@*'()".contains(&byte);
    let escape = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

fn written(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns a value that fits the schema.
fn example(document: &Value, schema: &Value) -> Value {
    for several in ["examples", "enum", "anyOf", "oneOf"] {
        if let Some(first) = schema.get(several).and_then(|all| all.get(0)) {
            let is_schema = several.ends_with("Of");
            return if is_schema {
                example(document, first)
            } else {
                first.clone()
            };
        }
    }
    if schema.get("$ref").is_some() {
        return example(document, resolve(document, schema));
    }
    for known in ["const", "default", "minimum"] {
        if let Some(value) = schema.get(known) {
            return value.clone();
        }
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("integer" | "number") => 1.into(),
        Some("boolean") => true.into(),
        Some("array") => Value::Array(vec![example(document, &schema["items"])]),
        _ => "x".into(),
    }
}

fn body(
    description: &Value,
    document: &Value,
    route: &Route,
    data: &BatchData,
    rng: &mut Rng,
) -> Body {
    if let Some(bodies) = data.bodies(route.label) {
        return Body::Bytes(bodies[rng.index(bodies.len())].clone());
    }
    let Some(send) = description.get("requestBody") else {
        return Body::None;
    };
    let content = &resolve(document, send)["content"]["application/json"];
    let given = content.get("example").cloned();
    let several = content.get("examples").and_then(Value::as_object);
    let given = given.or_else(|| several?.values().next()?.get("value").cloned());
    let mut value = given.unwrap_or_else(|| example(document, &content["schema"]));
    for (name, member) in value.as_object_mut().into_iter().flatten() {
        if let (true, Some(known)) = (member.is_string(), data.value(route.label, name)) {
            *member = known.into();
        }
    }
    Body::Json(value)
}
