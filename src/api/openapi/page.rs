//! Renders the OpenAPI document as an HTML page. The page is self-contained: its style and its script are
//! inline, and it loads nothing. Every operation, type and error code has an anchor.

use serde_json::{Map, Value};

use super::STYLE;
use super::code_example::{ExampleRequest, LANGUAGES};
use super::document::Document;
use super::guide::links;
use super::listed::{Listed, list, text};
use super::markdown::{blocks, inline};
use super::type_notation::SCHEMAS;
use playgate_http::response::pages::fill;
use playgate_http::{ErrorCode, RouteSet};
use playgate_types::html_escape::escaped;

const SKELETON: &str = include_str!("../../../data/pages/docs.html");
pub(super) const SCRIPT: &str = include_str!("../../../data/pages/docs.js");

const FIRST_CALL: &str = include_str!("../../../data/pages/first-call.html");

/// The operation that a newcomer calls first: it needs a partner token and nothing else.
const FIRST: &str = "livestreams";

const METHODS: [&str; 4] = ["get", "post", "put", "delete"];

const CODE: &str = "ErrorCode";

fn members<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    value
        .get(name)
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(Map::iter)
}

pub(super) fn page(document: &Document) -> String {
    let json = &document.json;
    let info = json.get("info").unwrap_or(&Value::Null);
    let operations: Vec<Listed<'_>> = members(json, "paths")
        .flat_map(|(path, methods)| {
            METHODS.into_iter().filter_map(move |method| {
                let operation = methods.get(method)?;
                Some(Listed {
                    method,
                    path,
                    operation,
                })
            })
        })
        .collect();
    let (mut contents, mut body) = (String::new(), String::new());
    for tag in list(json, "tags") {
        let name = text(tag, "name");
        let anchor = format!("of-{}", name.to_lowercase().replace(' ', "-"));
        contents.push_str(&format!(
            "<li><a href=\"#{anchor}\">{}</a><ul>",
            escaped(name)
        ));
        body.push_str(&format!("<h2 id=\"{anchor}\">{}</h2>\n", escaped(name)));
        blocks(text(tag, "description"), &mut body);
        for listed in operations.iter().filter(|listed| listed.is_of(name)) {
            let (label, method) = (listed.label(), listed.method);
            contents.push_str(&format!(
                "<li><a href=\"#{label}\"><b class=\"{method}\">{}</b> ",
                method.to_uppercase()
            ));
            inline(text(listed.operation, "summary"), &mut contents);
            contents.push_str("</a></li>");
            operation(json, listed, &mut body);
        }
        contents.push_str("</ul></li>\n");
    }
    let first = operations.iter().find(|listed| listed.label() == FIRST);
    // The operators' interface has no such call.
    let (first, set) = match first {
        Some(listed) => (first_call(json, listed), RouteSet::Public),
        None => (String::new(), RouteSet::Ops),
    };
    let mut introduction = String::new();
    blocks(text(info, "description"), &mut introduction);
    let server = json.pointer("/servers/0").unwrap_or(&Value::Null);
    let mut environment = String::new();
    inline(text(server, "description"), &mut environment);
    let types = types(json, &mut contents);
    let codes = codes(document, &mut contents);
    let languages: String = LANGUAGES
        .iter()
        .map(|(key, name, _)| format!("<option value=\"{key}\">{name}</option>"))
        .collect();
    fill(
        SKELETON,
        &[
            ("{style}", STYLE),
            ("{script}", SCRIPT),
            ("{languages}", &languages),
            ("{title}", &escaped(text(info, "title"))),
            ("{version}", text(info, "version")),
            ("{server}", &place(text(server, "url"))),
            ("{environment}", &environment),
            ("{contents}", &contents),
            ("{guides}", &links(set)),
            ("{first}", &first),
            ("{introduction}", &introduction),
            ("{types}", &types),
            ("{codes}", &codes),
            // Filled in last: the text of operations may contain the name of another placeholder.
            ("{operations}", &body),
        ],
    )
}

fn types(json: &Value, contents: &mut String) -> String {
    let mut types = String::new();
    let schemas = json.get("components").into_iter();
    let schemas = schemas.flat_map(|components| members(components, "schemas"));
    group("types", "Types", contents);
    for (name, schema) in schemas.filter(|(name, _)| *name != CODE) {
        contents.push_str(&format!("<li><a href=\"#type-{name}\">{name}</a></li>"));
        type_of(name, schema, &mut types);
    }
    contents.push_str(END_OF_GROUP);
    types
}

fn codes(document: &Document, contents: &mut String) -> String {
    let mut codes = String::new();
    group("codes", "Error codes", contents);
    for code in &document.codes {
        let (word, status) = (code.as_str(), code.status().as_u16());
        contents.push_str(&format!(
            "<li><a href=\"#{word}-{status}\">{status} {word}</a></li>"
        ));
        code_row(*code, &mut codes);
    }
    contents.push_str(END_OF_GROUP);
    codes
}

fn first_call(json: &Value, listed: &Listed<'_>) -> String {
    FIRST_CALL.replace("{example}", &examples(&ExampleRequest::new(json, listed)))
}

/// The request in all languages.
fn examples(request: &ExampleRequest) -> String {
    let shown = LANGUAGES.iter().map(|(key, _, example)| {
        let example = escaped(&example(request));
        format!("<pre data-language=\"{key}\">{example}</pre>\n")
    });
    shown.collect()
}

/// Formats the address of the server. The operators' interface has none: it is the address of the page.
fn place(url: &str) -> String {
    match url {
        "/" => String::new(),
        url => format!(", at <code>{}</code>", escaped(url)),
    }
}

/// Begins a folded list in the contents. The list is long, and readers find its entries by the search of the page.
fn group(anchor: &str, title: &str, contents: &mut String) {
    contents.push_str(&format!(
        "<li><a href=\"#{anchor}\">{title}</a><details><summary>All {}</summary><ul>",
        title.to_lowercase()
    ));
}

const END_OF_GROUP: &str = "</ul></details></li>\n";

fn operation(json: &Value, listed: &Listed<'_>, out: &mut String) {
    let Listed {
        method,
        path,
        operation,
    } = listed;
    let label = listed.label();
    let deprecated = operation.get("deprecated").is_some();
    out.push_str(&format!(
        "<section id=\"{label}\">\n<h3><a href=\"#{label}\">"
    ));
    inline(text(operation, "summary"), out);
    out.push_str("</a></h3>\n");
    let mark = if deprecated {
        " <em>deprecated</em>"
    } else {
        ""
    };
    out.push_str(&format!(
        "<p class=\"path\"><b class=\"{method}\">{}</b> <code>{}</code>{mark}</p>\n",
        method.to_uppercase(),
        escaped(path)
    ));
    blocks(text(operation, "description"), out);
    out.push_str(&format!(
        "<p class=\"who\">{}</p>\n",
        required_tokens(operation)
    ));
    parameters(operation, out);
    if let Some(body) = operation.get("requestBody") {
        out.push_str("<h4>Body</h4>\n<p>");
        let optional = body.get("required") == Some(&Value::Bool(false));
        out.push_str(if optional { "<em>optional</em> " } else { "" });
        media_types(body, out);
        out.push_str("</p>\n");
        blocks(text(body, "description"), out);
    }
    let request = ExampleRequest::new(json, listed);
    out.push_str(&examples(&request));
    if let Some(call) = request.to_try() {
        // Shown by the script, once it has a token.
        let call = escaped(&call.to_string());
        out.push_str(&format!(
            "<button class=\"try\" data-call=\"{call}\" hidden>Try it</button>\n"
        ));
    }
    answers(operation, out);
    out.push_str("</section>\n");
}

fn required_tokens(operation: &Value) -> String {
    let tokens: Vec<String> = list(operation, "security")
        .iter()
        .filter_map(Value::as_object)
        .map(|all| all.keys().cloned().collect::<Vec<_>>().join(" and "))
        .collect();
    match tokens.is_empty() {
        true => "No token.".to_owned(),
        false => format!("Requires {}.", tokens.join(", or ")),
    }
}

fn parameters(operation: &Value, out: &mut String) {
    let parameters = list(operation, "parameters");
    if parameters.is_empty() {
        return;
    }
    out.push_str("<h4>Parameters</h4>\n<table>");
    for parameter in parameters {
        let schema = parameter.get("schema").unwrap_or(&Value::Null);
        let required = parameter.get("required") == Some(&Value::Bool(true));
        out.push_str(&format!(
            "<tr><td><code>{}</code><br><small>{}{}</small></td><td>{} ",
            escaped(text(parameter, "name")),
            escaped(text(parameter, "in")),
            if required { "" } else { ", optional" },
            kind(schema)
        ));
        inline(text(parameter, "description"), out);
        out.push_str("</td></tr>\n");
    }
    out.push_str("</table>\n");
}

fn media_types(body: &Value, out: &mut String) {
    for (at, (media, body)) in members(body, "content").enumerate() {
        out.push_str(if at == 0 { "" } else { ", " });
        match body.get("schema").filter(|_| media == "application/json") {
            Some(schema) => out.push_str(&kind(schema)),
            None => out.push_str(&format!("<code>{}</code>", escaped(media))),
        }
    }
}

fn answers(operation: &Value, out: &mut String) {
    let mut anywhere = Vec::new();
    out.push_str("<h4>Responses</h4>\n<table>");
    for (status, answer) in members(operation, "responses") {
        // Common errors are named once below the table and described once on the page.
        if answer.get("$ref").is_some() {
            anywhere.push(status.as_str());
            continue;
        }
        out.push_str(&format!("<tr><td><b>{status}</b></td><td>"));
        if !status.starts_with(['4', '5']) {
            media_types(answer, out);
        }
        blocks(text(answer, "description"), out);
        // The first is JSON, if there is one. The page says in words what a binary body is.
        let example = members(answer, "content").find_map(|(media, body)| {
            let example = body.get("example").filter(|_| !is_binary(media))?;
            Some(
                example
                    .as_str()
                    .map_or_else(|| pretty(example), str::to_owned),
            )
        });
        if let Some(example) = example {
            out.push_str(&format!("<pre>{}</pre>", escaped(example.trim_end())));
        }
        out.push_str("</td></tr>\n");
    }
    out.push_str("</table>\n");
    if !anywhere.is_empty() {
        out.push_str(&format!(
            "<p><small>Errors of <a href=\"#codes\">every operation</a>: {}.</small></p>\n",
            anywhere.join(", ")
        ));
    }
}

fn is_binary(media: &str) -> bool {
    ["*/*", "application/octet-stream"].contains(&media)
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

fn type_of(name: &str, schema: &Value, out: &mut String) {
    out.push_str(&format!(
        "<section id=\"type-{name}\">\n<h3><a href=\"#type-{name}\">{name}</a></h3>\n"
    ));
    blocks(text(schema, "description"), out);
    if schema.get("properties").is_some() {
        let required = list(schema, "required");
        out.push_str("<table>");
        for (member, schema) in members(schema, "properties") {
            let optional = !required.iter().any(|name| name == member);
            out.push_str(&format!(
                "<tr><td><code>{}</code>{}</td><td>{} ",
                escaped(member),
                if optional {
                    "<br><small>optional</small>"
                } else {
                    ""
                },
                kind(schema)
            ));
            inline(text(schema, "description"), out);
            out.push_str("</td></tr>\n");
        }
        out.push_str("</table>\n");
    } else {
        out.push_str(&format!("<p>{}</p>\n", kind(schema)));
    }
    if let Some(example) = schema.pointer("/examples/0") {
        out.push_str(&format!("<pre>{}</pre>\n", escaped(&pretty(example))));
    }
    out.push_str("</section>\n");
}

fn kind(schema: &Value) -> String {
    if let Some(name) = text(schema, "$ref").strip_prefix(SCHEMAS) {
        return match name {
            CODE => format!("<a href=\"#codes\">{name}</a>"),
            _ => format!("<a href=\"#type-{name}\">{name}</a>"),
        };
    }
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        let words: Vec<_> = words
            .iter()
            .map(|word| format!("<code>{}</code>", escaped(word.as_str().unwrap_or("null"))))
            .collect();
        return words.join(" or ");
    }
    for several in ["anyOf", "oneOf"] {
        let kinds: Vec<_> = list(schema, several).iter().map(kind).collect();
        if !kinds.is_empty() {
            return kinds.join(" or ");
        }
    }
    if let Some(item) = schema.get("items") {
        return format!("list of {}", kind(item));
    }
    if let Some(item) = schema
        .get("additionalProperties")
        .filter(|item| item.is_object())
    {
        return format!("map of {}", kind(item));
    }
    match schema.get("type") {
        Some(Value::String(kind)) => format!("<i>{}</i>", escaped(kind)),
        Some(Value::Array(kinds)) => {
            let kinds: Vec<_> = kinds.iter().filter_map(Value::as_str).collect();
            format!("<i>{}</i>", escaped(&kinds.join(" or ")))
        }
        _ => "<i>anything</i>".to_owned(),
    }
}

fn code_row(code: ErrorCode, out: &mut String) {
    let (word, status) = (code.as_str(), code.status().as_u16());
    out.push_str(&format!(
        "<tr id=\"{word}-{status}\"><td><code>{word}</code></td><td>{status}</td><td>"
    ));
    inline(code.meaning(), out);
    out.push_str("</td></tr>\n");
}
