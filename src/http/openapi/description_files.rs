//! What people write of an interface: one TOML file per tag in `data/openapi`, by the labels of the
//! route table. What the table and the code know (methods, paths, tokens, limits, codes with their
//! statuses) is not said there again.
//!
//! Everywhere in these files `Service-` stands for the configured prefix of our headers, and
//! `https://tv.example` for the address of the service.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::http::router::RouteSet;

/// What both interfaces share.
const COMMON: &str = include_str!("../../../data/openapi/common.toml");

const PARTNER: &[&str] = &[
    include_str!("../../../data/openapi/partner/interface.toml"),
    include_str!("../../../data/openapi/partner/login.toml"),
    include_str!("../../../data/openapi/partner/user.toml"),
    include_str!("../../../data/openapi/partner/catalog.toml"),
    include_str!("../../../data/openapi/partner/schedule.toml"),
    include_str!("../../../data/openapi/partner/playback.toml"),
    include_str!("../../../data/openapi/partner/telemetry.toml"),
    include_str!("../../../data/openapi/partner/pages.toml"),
];

const ADMIN: &[&str] = &[
    include_str!("../../../data/openapi/admin/interface.toml"),
    include_str!("../../../data/openapi/admin/operations.toml"),
    include_str!("../../../data/openapi/admin/access.toml"),
    include_str!("../../../data/openapi/admin/content.toml"),
    include_str!("../../../data/openapi/admin/users.toml"),
    include_str!("../../../data/openapi/admin/mail.toml"),
    include_str!("../../../data/openapi/admin/playback.toml"),
    include_str!("../../../data/openapi/admin/store.toml"),
];

/// Notes by the names of what they are about.
pub type Notes = BTreeMap<String, String>;

/// One file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Part {
    /// The name of the tag; of the interface's own file, its title.
    pub title: String,
    /// What there is to say of all of it.
    pub text: String,
    /// The parameters of paths.
    pub path: Notes,
    /// The headers of requests.
    pub headers: Notes,
    /// Objects that we send.
    pub objects: BTreeMap<String, Notes>,
    /// Objects that are sent to us.
    pub requests: BTreeMap<String, Notes>,
    /// JSON Schemas of what is no such object.
    pub schemas: BTreeMap<String, Value>,
    /// Examples of objects, as JSON.
    pub examples: Notes,
    /// The operations, by the labels of their routes.
    pub operations: BTreeMap<String, Operation>,
}

/// One operation.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operation {
    /// A line.
    pub summary: String,
    /// All that a partner's developer needs to know.
    #[serde(default)]
    pub text: String,
    /// The operation of the same file that it is like in all that follows.
    pub like: Option<String>,
    /// The parameters of the query.
    #[serde(default)]
    pub query: Notes,
    /// The headers that it reads beside the tokens; `?` behind those that may be absent. A note may
    /// follow where one means something else here.
    #[serde(default)]
    pub headers: Vec<String>,
    /// Whether answers may be kept and asked for again by their tag.
    #[serde(default)]
    pub kept: bool,
    /// The body of the request.
    pub send: Option<Content>,
    /// The answers that are no errors, by status.
    #[serde(default)]
    pub returns: BTreeMap<String, Content>,
    /// The codes of its errors, but those that follow from its route.
    #[serde(default)]
    pub errors: Vec<String>,
}

/// A body.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// JSON of this type.
    Json(String),
    /// Anything else.
    Other(OtherContent),
}

/// A body that is not only JSON of a type, or none.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OtherContent {
    /// What it is.
    pub text: String,
    /// The media types; JSON if there are none and there is a type.
    #[serde(default)]
    pub media: Vec<String>,
    /// The type, where it is JSON.
    pub r#type: Option<String>,
    /// An example, where the type has none that fits.
    pub example: Option<String>,
    /// Headers of the answer.
    #[serde(default)]
    pub headers: Notes,
}

/// The files of an interface, the common one first and its own second.
///
/// # Errors
/// The beginning of the file that cannot be read, and why.
pub fn read(table: RouteSet, names: &[(&str, &str)]) -> Result<Vec<Part>, String> {
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
                .fold((*file).to_owned(), |text, (name, value)| {
                    text.replace(name, value)
                });
            let head = file.lines().next().unwrap_or_default();
            let read = toml::from_str(&text).map_err(|error| error.to_string());
            read.and_then(alike).map_err(|why| format!("{head}: {why}"))
        })
        .collect()
}

/// Gives the operations that are like others what those have.
fn alike(mut part: Part) -> Result<Part, String> {
    let models = part.operations.clone();
    for operation in part.operations.values_mut() {
        let Some(like) = operation.like.take() else {
            continue;
        };
        let model = models
            .get(&like)
            .ok_or_else(|| format!("no operation {like}"))?;
        *operation = Operation {
            summary: std::mem::take(&mut operation.summary),
            text: std::mem::take(&mut operation.text),
            ..model.clone()
        };
    }
    Ok(part)
}
