//! The written parts of the interface descriptions: one TOML file per tag in `data/openapi`, keyed
//! by the labels of the route table.
//!
//! The files must not repeat what the route table and the code know: methods, paths, tokens,
//! limits, statuses of error codes. In all files `Service-` stands for the configured header prefix
//! and `https://tv.example` for the address of the service.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use playgate_http::RouteSet;

const COMMON: &str = include_str!("../../../data/openapi/common.toml");

const PARTNER: &[&str] = &[
    include_str!("../../../data/openapi/partner/interface.toml"),
    include_str!("../../../data/openapi/partner/login.toml"),
    include_str!("../../../data/openapi/partner/user.toml"),
    include_str!("../../../data/openapi/partner/catalog.toml"),
    include_str!("../../../data/openapi/partner/schedule.toml"),
    include_str!("../../../data/openapi/partner/playback.toml"),
    include_str!("../../../data/openapi/partner/telemetry.toml"),
    include_str!("../../../data/openapi/partner/lab.toml"),
    include_str!("../../../data/openapi/partner/pages.toml"),
];

const ADMIN: &[&str] = &[
    include_str!("../../../data/openapi/admin/interface.toml"),
    include_str!("../../../data/openapi/admin/operations.toml"),
    include_str!("../../../data/openapi/admin/access.toml"),
    include_str!("../../../data/openapi/admin/lab.toml"),
    include_str!("../../../data/openapi/admin/content.toml"),
    include_str!("../../../data/openapi/admin/users.toml"),
    include_str!("../../../data/openapi/admin/mail.toml"),
    include_str!("../../../data/openapi/admin/playback.toml"),
    include_str!("../../../data/openapi/admin/requests.toml"),
    include_str!("../../../data/openapi/admin/store.toml"),
];

/// Notes in the type notation, by the name of the member or parameter that they describe.
pub(super) type Notes = BTreeMap<String, String>;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Part {
    /// The name of the tag. In the file `interface.toml`, the title of the interface.
    pub title: String,
    pub text: String,
    pub path: Notes,
    pub headers: Notes,
    pub objects: BTreeMap<String, Notes>,
    /// Objects in requests, where an optional member may also be `null`.
    pub requests: BTreeMap<String, Notes>,
    /// JSON Schemas of types that the type notation cannot express.
    pub schemas: BTreeMap<String, Value>,
    pub examples: Notes,
    pub operations: BTreeMap<String, Operation>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Operation {
    pub summary: String,
    #[serde(default)]
    pub text: String,
    /// The operation of the same file that has the same parameters, bodies and errors.
    pub like: Option<String>,
    #[serde(default)]
    pub query: Notes,
    /// Request headers besides the tokens; a `?` at the end marks an optional one. A note may
    /// follow if the header has a special meaning for this operation.
    #[serde(default)]
    pub headers: Vec<String>,
    /// Whether responses have an entity tag and may be cached.
    #[serde(default)]
    pub kept: bool,
    pub send: Option<BodyDescription>,
    #[serde(default)]
    pub returns: BTreeMap<String, BodyDescription>,
    /// The error codes, except those that follow from the route.
    #[serde(default)]
    pub errors: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum BodyDescription {
    Json(String),
    Other(OtherContent),
}

/// A body that is not JSON, has several media types, or is empty.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OtherContent {
    pub text: String,
    /// The media types. JSON is one of them if there is a `type`.
    #[serde(default)]
    pub media: Vec<String>,
    pub r#type: Option<String>,
    /// The type of a form, or of each line of NDJSON.
    pub of: Option<String>,
    pub example: Option<String>,
    /// Examples by media type, if there are several.
    #[serde(default)]
    pub examples: Notes,
    #[serde(default)]
    pub headers: Notes,
}

/// Parses the files of an interface: first the common file, then `interface.toml`, then one file
/// per tag.
///
/// # Errors
/// The first line of the file that cannot be parsed, and why.
pub(super) fn read(table: RouteSet, names: &[(&str, &str)]) -> Result<Vec<Part>, String> {
    let files = match table {
        RouteSet::Public => PARTNER,
        RouteSet::Ops => ADMIN,
    };
    [COMMON]
        .iter()
        .chain(files)
        .map(|file| {
            let text = names
                .iter()
                // Before parsing: the names occur in keys, texts and examples.
                .fold((*file).to_owned(), |text, (name, value)| {
                    text.replace(name, value)
                });
            let head = file.lines().next().unwrap_or_default();
            let read = toml::from_str(&text).map_err(|error| error.to_string());
            read.and_then(resolve_like)
                .map_err(|why| format!("{head}: {why}"))
        })
        .collect()
}

/// Copies the members of the operation named in `like` into the operations that refer to it.
fn resolve_like(mut part: Part) -> Result<Part, String> {
    // References are resolved against the file as written: a reference to a reference is not followed.
    let models = part.operations.clone();
    for operation in part.operations.values_mut() {
        let Some(like) = operation.like.take() else {
            continue;
        };
        let model = models
            .get(&like)
            .ok_or_else(|| format!("`like` names an unknown operation: {like}"))?;
        *operation = Operation {
            summary: std::mem::take(&mut operation.summary),
            text: std::mem::take(&mut operation.text),
            ..model.clone()
        };
    }
    Ok(part)
}
