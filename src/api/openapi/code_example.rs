//! Builds the examples shown with an operation: one request, as curl, TypeScript, Python and Kotlin.

use serde_json::{Value, json};

use super::listed::{Listed, list, text};

/// The languages by their key in `data/pages/docs.js`, in the order of the page.
pub(super) const LANGUAGES: [(&str, &str, fn(&ExampleRequest) -> String); 4] = [
    ("curl", "curl", curl),
    ("typescript", "TypeScript", typescript),
    ("python", "Python", python),
    ("kotlin", "Kotlin", kotlin),
];

/// A header value: text, or the name of a token that the reader has to insert.
enum HeaderText {
    Text(String),
    Token(&'static str),
    Bearer(&'static str),
}

enum BodyExample {
    Json(Value),
    Form(Value),
    File,
}

pub(super) struct ExampleRequest {
    method: String,
    /// Path and query.
    target: String,
    url: String,
    headers: Vec<(String, HeaderText)>,
    body: Option<BodyExample>,
}

impl ExampleRequest {
    pub(super) fn new(document: &Value, listed: &Listed<'_>) -> Self {
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
        let mut headers: Vec<_> = tokens(operation)
            .map(|scheme| token_header(document, scheme))
            .collect();
        let mut path = (*path).to_owned();
        let mut query = Vec::new();
        for parameter in list(operation, "parameters") {
            let name = text(parameter, "name");
            let example = parameter
                .get("example")
                .map_or_else(|| name.to_owned(), plain_text);
            let needed = parameter.get("required") == Some(&Value::Bool(true));
            match text(parameter, "in") {
                "path" => path = path.replace(&format!("{{{name}}}"), &example),
                // Only what is required: the example must work as it is pasted.
                "query" if needed => query.push(format!("{name}={example}")),
                "header" if needed => headers.push((name.to_owned(), HeaderText::Text(example))),
                _ => {}
            }
        }
        let query = match query.is_empty() {
            true => String::new(),
            false => format!("?{}", query.join("&")),
        };
        Self {
            method: method.to_uppercase(),
            target: format!("{path}{query}"),
            url: format!("{base}{path}{query}"),
            headers,
            body: operation.get("requestBody").map(body),
        }
    }
}

impl ExampleRequest {
    /// The request for the script of the page, which sends it to the server of the page. `None` for what the page cannot send
    /// or show: files, and what operators do.
    pub(super) fn to_try(&self) -> Option<Value> {
        let body = match &self.body {
            None => None,
            Some(BodyExample::Json(json)) => Some(json.clone()),
            Some(BodyExample::Form(_) | BodyExample::File) => return None,
        };
        let mut headers = serde_json::Map::new();
        for (name, value) in &self.headers {
            let value = match value {
                HeaderText::Text(text) => text.clone(),
                HeaderText::Token(token) => (*token).to_owned(),
                HeaderText::Bearer("OPERATOR_TOKEN") => return None,
                HeaderText::Bearer(token) => format!("Bearer {token}"),
            };
            headers.insert(name.clone(), value.into());
        }
        // Without a partner token there is nothing that needs the page: the address is a link.
        let is_of_partner = self
            .headers
            .iter()
            .any(|(_, value)| matches!(value, HeaderText::Token(_)));
        is_of_partner.then(|| json!({"method": self.method, "target": self.target, "headers": headers, "body": body}))
    }
}

fn tokens(operation: &Value) -> impl Iterator<Item = &str> {
    // The first alternative is the header, which every client can send.
    let first = list(operation, "security")
        .first()
        .and_then(Value::as_object);
    first
        .into_iter()
        .flat_map(|all| all.keys().map(String::as_str))
}

fn token_header(document: &Value, scheme: &str) -> (String, HeaderText) {
    let definition = document.pointer(&format!("/components/securitySchemes/{scheme}"));
    let name = definition.map(|definition| text(definition, "name"));
    match (scheme, name) {
        (_, Some(name)) if !name.is_empty() => {
            (name.to_owned(), HeaderText::Token("PARTNER_TOKEN"))
        }
        ("UserToken", _) => ("Authorization".to_owned(), HeaderText::Bearer("USER_TOKEN")),
        _ => (
            "Authorization".to_owned(),
            HeaderText::Bearer("OPERATOR_TOKEN"),
        ),
    }
}

fn body(body: &Value) -> BodyExample {
    let example = |media| body.pointer(&format!("/content/{media}/example"));
    if let Some(json) = example("application~1json") {
        return BodyExample::Json(json.clone());
    }
    match example("application~1x-www-form-urlencoded") {
        Some(form) => BodyExample::Form(form.clone()),
        None => BodyExample::File,
    }
}

fn plain_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain_text).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

fn form_fields(form: &Value) -> impl Iterator<Item = (&String, String)> {
    let fields = form.as_object().into_iter().flatten();
    fields.map(|(name, value)| (name, plain_text(value)))
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// Formats a string literal. A string literal of JSON is also one of TypeScript and Python.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn curl(request: &ExampleRequest) -> String {
    let verb = match request.method.as_str() {
        "GET" => String::new(),
        other => format!(" -X {other}"),
    };
    // In double quotes, where the shell fills in the variables with the tokens.
    let mut parts = vec![format!("curl{verb} \"{}\"", request.url)];
    parts.extend(request.headers.iter().map(|(name, value)| match value {
        HeaderText::Text(text) => format!("-H \"{name}: {text}\""),
        HeaderText::Token(token) => format!("-H \"{name}: ${token}\""),
        HeaderText::Bearer(token) => format!("-H \"{name}: Bearer ${token}\""),
    }));
    match &request.body {
        // A quote ends the string of the shell: end it, escape the quote, begin it again.
        Some(BodyExample::Json(json)) => {
            parts.push(format!("-d '{}'", json.to_string().replace('\'', r"'\''")));
        }
        Some(BodyExample::Form(form)) => {
            let fields = form_fields(form);
            parts.extend(fields.map(|(name, value)| format!("--data-urlencode '{name}={value}'")));
        }
        Some(BodyExample::File) => parts.push("--data-binary @FILE".to_owned()),
        None => {}
    }
    parts.join(" \\\n  ")
}

fn typescript(request: &ExampleRequest) -> String {
    let mut lines = vec![format!(
        "const response = await fetch({}, {{",
        quoted(&request.url)
    )];
    if request.method != "GET" {
        lines.push(format!("  method: {},", quoted(&request.method)));
    }
    if !request.headers.is_empty() {
        lines.push("  headers: {".to_owned());
        lines.extend(request.headers.iter().map(|(name, value)| match value {
            HeaderText::Text(text) => format!("    {}: {},", quoted(name), quoted(text)),
            HeaderText::Token(token) => format!("    {}: {token},", quoted(name)),
            HeaderText::Bearer(token) => format!("    {}: `Bearer ${{{token}}}`,", quoted(name)),
        }));
        lines.push("  },".to_owned());
    }
    match &request.body {
        Some(BodyExample::Json(json)) => {
            lines.push(format!(
                "  body: JSON.stringify({}),",
                pretty(json).replace('\n', "\n  ")
            ));
        }
        Some(BodyExample::Form(form)) => {
            let form = pretty(form).replace('\n', "\n  ");
            lines.push(format!("  body: new URLSearchParams({form}),"));
        }
        Some(BodyExample::File) => lines.push("  body: file,".to_owned()),
        None => {}
    }
    match lines.len() {
        1 => format!("const response = await fetch({});", quoted(&request.url)),
        _ => format!("{}\n}});", lines.join("\n")),
    }
}

fn python(request: &ExampleRequest) -> String {
    let mut lines = vec!["response = httpx.request(".to_owned()];
    lines.push(format!(
        "    {}, {},",
        quoted(&request.method),
        quoted(&request.url)
    ));
    if !request.headers.is_empty() {
        lines.push("    headers={".to_owned());
        lines.extend(request.headers.iter().map(|(name, value)| match value {
            HeaderText::Text(text) => format!("        {}: {},", quoted(name), quoted(text)),
            HeaderText::Token(token) => format!("        {}: {token},", quoted(name)),
            HeaderText::Bearer(token) => {
                format!("        {}: f\"Bearer {{{token}}}\",", quoted(name))
            }
        }));
        lines.push("    },".to_owned());
    }
    match &request.body {
        Some(BodyExample::Json(json)) => {
            lines.push(format!("    json={},", python_literal(json, "    ")));
        }
        Some(BodyExample::Form(form)) => {
            lines.push(format!("    data={},", python_literal(form, "    ")));
        }
        Some(BodyExample::File) => lines.push("    content=file,".to_owned()),
        None => {}
    }
    format!("{}\n)", lines.join("\n"))
}

fn python_literal(value: &Value, indent: &str) -> String {
    let deeper = format!("{indent}    ");
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(_) | Value::String(_) => value.to_string(),
        Value::Array(items) => {
            let items: Vec<_> = items
                .iter()
                .map(|item| python_literal(item, indent))
                .collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(members) if members.is_empty() => "{}".to_owned(),
        Value::Object(members) => {
            let lines = members.iter().map(|(name, value)| {
                format!(
                    "{deeper}{}: {},\n",
                    quoted(name),
                    python_literal(value, &deeper)
                )
            });
            format!("{{\n{}{indent}}}", lines.collect::<String>())
        }
    }
}

fn kotlin(request: &ExampleRequest) -> String {
    let body = match &request.body {
        Some(BodyExample::Json(json)) => Some(format!(
            // A dollar sign would begin a template.
            "\"\"\"{}\"\"\".toRequestBody(\"application/json\".toMediaType())",
            json.to_string().replace('$', "${'$'}")
        )),
        Some(BodyExample::Form(form)) => {
            let fields = form_fields(form);
            let fields =
                fields.map(|(name, value)| format!(".add({}, {})", quoted(name), quoted(&value)));
            Some(format!(
                "FormBody.Builder(){}.build()",
                fields.collect::<String>()
            ))
        }
        Some(BodyExample::File) => Some("file.asRequestBody()".to_owned()),
        // OkHttp demands a body of these methods.
        None if matches!(request.method.as_str(), "POST" | "PUT") => {
            Some("ByteArray(0).toRequestBody()".to_owned())
        }
        None => None,
    };
    let mut lines = vec!["val request = Request.Builder()".to_owned()];
    lines.push(format!("    .url({})", quoted(&request.url)));
    lines.extend(request.headers.iter().map(|(name, value)| match value {
        HeaderText::Text(text) => format!("    .header({}, {})", quoted(name), quoted(text)),
        HeaderText::Token(token) => format!("    .header({}, {token})", quoted(name)),
        HeaderText::Bearer(token) => format!("    .header({}, \"Bearer ${token}\")", quoted(name)),
    }));
    let method = request.method.to_lowercase();
    if let Some(body) = body {
        lines.push(format!("    .{method}({body})"));
    } else if method != "get" {
        lines.push(format!("    .{method}()"));
    }
    lines.push("    .build()".to_owned());
    lines.push("val response = client.newCall(request).execute()".to_owned());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_of_a_request_agree_in_all_languages() {
        let request = ExampleRequest {
            method: "POST".to_owned(),
            target: "/a".to_owned(),
            url: "https://tv.example/a".to_owned(),
            headers: vec![
                ("X-A".to_owned(), HeaderText::Token("PARTNER_TOKEN")),
                ("X-B".to_owned(), HeaderText::Text("b".to_owned())),
            ],
            body: Some(BodyExample::Json(
                json!({"on": true, "name": "O'Hara", "none": null}),
            )),
        };
        let call = request.to_try().unwrap();
        assert_eq!(
            (&call["target"], &call["headers"]["X-A"]),
            (&json!("/a"), &json!("PARTNER_TOKEN"))
        );
        let [curl, typescript, python, kotlin] = LANGUAGES.map(|(_, _, example)| example(&request));
        assert!(curl.contains("-H \"X-A: $PARTNER_TOKEN\" \\\n") && curl.contains(r"O'\''Hara"));
        assert!(
            typescript.contains("\"X-A\": PARTNER_TOKEN,") && typescript.contains("\"on\": true")
        );
        assert!(python.contains("\"on\": True,") && python.contains("\"none\": None,"));
        assert!(kotlin.contains(".header(\"X-B\", \"b\")") && kotlin.contains(".post(\"\"\"{"));
    }
}
