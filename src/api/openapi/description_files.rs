//! The written parts of the interface descriptions: one TOML file per tag in `data/openapi`, with what its operations share, and
//! the words of the resources, which have the operations by the labels of the route table.
//!
//! They must not repeat what the route table and the code know: methods, paths, tokens, limits, statuses of error codes, types of
//! answers. In all of them `Service-` stands for the configured header prefix and `https://tv.example` for the address of the
//! service.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::words::{OPS_WORDS, PUBLIC_WORDS, Words};
use crate::{operators, partner};
use playgate_http::RouteSet;
use playgate_http::errors::api_error::{BlockingSessionBody, ErrorResponse};
use playgate_types::{Described, JsonType};

const COMMON: &str = include_str!("../../../data/openapi/common.toml");

/// A tag of an interface: its title with what its operations share, and the words of the resources that it has.
type Source = (&'static str, &'static [Words]);

macro_rules! sources {
    ($($file:literal: [$($words:expr),*],)*) => {
        [$((include_str!(concat!("../../../data/openapi/", $file)), &[$($words),*])),*]
    };
}

const PARTNER: &[Source] = &sources! {
    "partner/interface.toml": [],
    "partner/login.toml": [partner::login::WORDS],
    "partner/user.toml": [partner::users::WORDS, partner::devices::WORDS, partner::sessions::WORDS,
        partner::offers::WORDS],
    "partner/catalog.toml": [partner::catalog::WORDS],
    "partner/schedule.toml": [partner::schedule::WORDS, partner::guide_export::WORDS],
    "partner/playback.toml": [partner::playback::WORDS, partner::license::WORDS, partner::media::WORDS],
    "partner/telemetry.toml": [partner::telemetry::WORDS],
    "partner/lab.toml": [partner::lab::WORDS],
    "partner/pages.toml": [PUBLIC_WORDS, partner::reset_page::WORDS, partner::front_page::WORDS,
        partner::lab_player::WORDS, partner::client_packages::WORDS],
};

const ADMIN: &[Source] = &sources! {
    "admin/interface.toml": [],
    "admin/operations.toml": [operators::clock::WORDS, operators::probes::WORDS,
        operators::console::WORDS, OPS_WORDS, operators::about::WORDS, operators::activity::WORDS,
        operators::fleet::WORDS],
    "admin/access.toml": [operators::partners::WORDS, operators::operator_accounts::WORDS,
        operators::audit::WORDS, operators::conformance::WORDS],
    "admin/lab.toml": [operators::faults::WORDS, operators::clock::LAB_WORDS, operators::reset::WORDS,
        operators::lab::WORDS],
    "admin/content.toml": [operators::catalog::WORDS, operators::epg_sources::WORDS,
        operators::schedule::WORDS, operators::rights::WORDS, operators::rule_preview::WORDS,
        operators::pictures::WORDS],
    "admin/users.toml": [operators::users::WORDS, operators::users::import::WORDS,
        operators::grants::WORDS, operators::users::devices::WORDS],
    "admin/mail.toml": [operators::mail::WORDS],
    "admin/playback.toml": [operators::playback::WORDS, operators::telemetry::WORDS],
    "admin/requests.toml": [operators::requests::WORDS],
    "admin/store.toml": [operators::store::WORDS, operators::backups::WORDS],
};

const ERRORS: &[JsonType] = &[BlockingSessionBody::TYPE, ErrorResponse::TYPE];

/// The types that descriptions name. Both interfaces share some.
pub(super) fn types() -> impl Iterator<Item = &'static JsonType> {
    let words = PARTNER.iter().chain(ADMIN).flat_map(|(_, words)| *words);
    words.flat_map(|words| words.types).chain(ERRORS)
}

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
    /// Objects in answers that have no Rust type.
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
    [(COMMON, &[] as &[Words])]
        .iter()
        .chain(files)
        .map(|(file, words)| {
            let texts = words.iter().map(|words| words.text);
            let text: String = std::iter::once(*file).chain(texts).collect();
            let text = names
                .iter()
                // Before parsing: the names occur in keys, texts and examples.
                .fold(text, |text, (name, value)| text.replace(name, value));
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
