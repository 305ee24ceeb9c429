//! Builds the `curl` command shown with an operation.

use serde_json::Value;

use super::page::{Listed, list, text};

fn token(scheme: &str) -> &'static str {
    match scheme {
        "UserToken" => "$USER_TOKEN",
        "OperatorToken" => "$OPERATOR_TOKEN",
        _ => "$PARTNER_TOKEN",
    }
}

pub(super) fn command(document: &Value, listed: &Listed<'_>) -> String {
    let Listed {
        method,
        path,
        operation,
    } = listed;
    let base = document.pointer("/servers/0/url").and_then(Value::as_str);
    // The operations listener does not know its public address.
    let base = base
        .filter(|base| *base != "/")
        .unwrap_or("http://127.0.0.1:9080");
    let mut path = (*path).to_owned();
    let (mut query, mut headers) = (Vec::new(), Vec::new());
    for scheme in tokens(operation) {
        let definition = document.pointer(&format!("/components/securitySchemes/{scheme}"));
        let value = token(scheme);
        headers.push(
            match definition.map(|definition| text(definition, "name")) {
                Some(name) if !name.is_empty() => format!("{name}: {value}"),
                _ => format!("Authorization: Bearer {value}"),
            },
        );
    }
    for parameter in list(operation, "parameters") {
        let name = text(parameter, "name");
        let example = parameter
            .get("example")
            .map_or_else(|| name.to_owned(), plain_text);
        let needed = parameter.get("required") == Some(&Value::Bool(true));
        match text(parameter, "in") {
            "path" => path = path.replace(&format!("{{{name}}}"), &example),
            // Only what is required: the command must work as it is pasted.
            "query" if needed => query.push(format!("{name}={example}")),
            "header" if needed => headers.push(format!("{name}: {example}")),
            _ => {}
        }
    }
    let query = match query.is_empty() {
        true => String::new(),
        false => format!("?{}", query.join("&")),
    };
    let verb = match *method {
        "get" => String::new(),
        other => format!(" -X {}", other.to_uppercase()),
    };
    let mut parts = vec![format!("curl{verb} \"{base}{path}{query}\"")];
    parts.extend(headers.iter().map(|header| format!("-H \"{header}\"")));
    parts.extend(operation.get("requestBody").map(data));
    parts.join(" \\\n  ")
}

fn tokens(operation: &Value) -> impl Iterator<Item = &str> {
    let first = list(operation, "security")
        .first()
        .and_then(Value::as_object);
    first
        .into_iter()
        .flat_map(|all| all.keys().map(String::as_str))
}

fn plain_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain_text).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

fn data(body: &Value) -> String {
    match body.pointer("/content/application~1json/example") {
        // A quote ends the string of the shell: end it, escape the quote, begin it again.
        Some(example) => format!("-d '{}'", example.to_string().replace('\'', r"'\''")),
        None => "--data-binary @FILE".to_owned(),
    }
}
