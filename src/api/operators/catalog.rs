//! The catalogue file: export, import, history, undo.

use std::cell::OnceCell;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderValue;
use serde::Serialize;

use playgate_domain::accounts::Accounts;
use playgate_domain::catalog::{FileImport, Mode, Offer, OfferKind, Undo, Version};
use playgate_domain::entitlement::Grants;
use playgate_formats::catalog_file;
use playgate_formats::catalog_report::CatalogImportBody;
use playgate_http::offload::{bulk, cold};
use playgate_http::response::reply::media;
use playgate_http::{
    ApiError, CombineResults, Context, Input, OperatorAuth, ParseRequest, Payload, Reply,
};
use playgate_services::Services;
use playgate_types::{BroadcastId, Described, JsonType, Malformed, UnixSeconds};

crate::openapi::words::words! { CatalogUndo, CatalogVersion, CatalogImportBody => r##"
[operations.admin_export_catalog]
summary = "Export the catalogue"
text = "The export can be imported again. It contains no content keys."
query.format = "toml | json?: File format. Default: `toml`."
returns."200" = { text = "The catalogue.", type = "object", media = ["application/toml"], example = '{"livestream": [{"id": "news", "name": "News", "live_rights": true}]}', examples = { "application/toml" = '''
[[livestream]]
id = "news"
name = "News"
live_rights = true
''' } }

[operations.admin_import_catalog]
summary = "Import a catalogue"
text = '''
The import is all or nothing. All errors are reported together, with their lines.

- The file replaces the catalogue. With `merge` it adds and changes entries only.
- An import that removes over 30 % of the livestreams, assets or offers, or an offer that users hold, or adds a rule without a condition that takes a right away, is held: 409 `IMPORT_HELD` with the report in `details`. Repeat it with `accept` to override.
- The replaced catalogue is kept as a version; see `admin_catalog_history`.'''
query.merge = "Flag?: Adds and changes entries and removes none."
query.dryRun = "Flag?: Reports the changes and makes none."
query.accept = "Flag?: Imports even if the import would be held."
send = { text = "The catalogue file, TOML or JSON.", type = "object", media = ["application/toml"], example = '{"livestream": [{"id": "news", "name": "News", "live_rights": true}]}', examples = { "application/toml" = '''
[[livestream]]
id = "news"
name = "News"
live_rights = true
''' } }
returns."200" = "CatalogImport: The changes, made or planned."
errors = ["IMPORT_INVALID", "IMPORT_HELD"]

[operations.admin_catalog_history]
summary = "List versions of the catalogue"
text = "Versions that file imports and undos have replaced. Newest first, at most 20."
returns."200" = "[CatalogVersion]: The versions."

[operations.admin_undo_catalog]
summary = "Restore an earlier version of the catalogue"
text = "Puts a version in place, with its content keys. The catalogue that it replaces becomes the newest version, so an undo can be undone. Overrides of broadcasts set since the import are undone too. An undo is never held; `doubts` has the reasons to hold an import that made the same changes. Send `dryRun` first to see what it removes."
query.version = "VersionNumber?: Version to restore. Default: the newest."
query.dryRun = "Flag?: Reports the changes and makes none."
returns."200" = "CatalogUndo: The changes, made or planned."
errors = ["CATALOG_VERSION_NOT_FOUND", "IMPORT_INVALID"]
"## }

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CatalogFormat {
    Toml,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExportCatalogRequest {
    pub format: CatalogFormat,
}

impl ParseRequest for ExportCatalogRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let format = input.query.parsed("format", |text| match text {
            "toml" => Ok(CatalogFormat::Toml),
            "json" => Ok(CatalogFormat::Json),
            _ => Err(Malformed("must be toml or json")),
        })?;
        Ok(Self {
            format: format.unwrap_or(CatalogFormat::Toml),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ImportCatalogRequest {
    pub file: Bytes,
    pub merge: bool,
    pub dry_run: bool,
    pub accept: bool,
}

impl ParseRequest for ImportCatalogRequest {
    fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let (merge, dry_run, accept) = (
            input.query.flag("merge"),
            input.query.flag("dryRun"),
            input.query.flag("accept"),
        )
            .combine()?;
        Ok(Self {
            file: payload.whole()?,
            merge,
            dry_run,
            accept,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UndoCatalogRequest {
    pub version: Option<u64>,
    pub dry_run: bool,
}

impl ParseRequest for UndoCatalogRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let (version, dry_run) = (
            input.number("version", 18, "must be the number of a catalogue version"),
            input.query.flag("dryRun"),
        )
            .combine()?;
        Ok(Self { version, dry_run })
    }
}

pub(crate) async fn export_catalog(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: ExportCatalogRequest,
) -> Result<Reply, ApiError> {
    let snapshot = services.catalog.snapshot();
    let (media, text) = cold(services, move || -> Result<_, ApiError> {
        Ok(match request.format {
            CatalogFormat::Toml => {
                let media = HeaderValue::from_static("application/toml");
                (media, catalog_file::to_toml(&snapshot))
            }
            CatalogFormat::Json => (media::JSON, catalog_file::to_json(&snapshot)),
        })
    })
    .await?;
    Ok(Reply::bytes(media, text))
}

pub(crate) async fn import_catalog(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: ImportCatalogRequest,
) -> Result<Reply, ApiError> {
    let (catalog, now) = (services.catalog.clone(), cx.now);
    let (accounts, grants) = (services.accounts.clone(), services.grants.clone());
    let schedule = Arc::clone(&services.schedule);
    let reply = bulk(services, move || -> Result<_, ApiError> {
        let text = std::str::from_utf8(&request.file)
            .map_err(|_| ApiError::malformed("the file is not UTF-8"))?;
        // Without a function that opens key files: the server must not read paths that a client names.
        let file = catalog_file::parse(text, None);
        let mode = if request.merge {
            Mode::Merge
        } else {
            Mode::Replace
        };
        let is_broadcast = |id: &str| {
            BroadcastId::parse(id).is_ok_and(|id| schedule.snapshot().program(&id).is_some())
        };
        let holders = holders(accounts, grants, now);
        let options = FileImport {
            mode,
            dry_run: request.dry_run,
            accept: request.accept,
            now,
            holders: &holders,
            write: &catalog_file::to_json,
        };
        let imported = catalog.import_file(file, &options, &is_broadcast)?;
        // Rights are part of the rendered broadcasts, so these are rendered again.
        if !request.dry_run && !imported.difference.changes.is_empty() {
            schedule.refresh().map_err(ApiError::internal)?;
        }
        Ok(CatalogImportBody::new(imported, request.dry_run))
    })
    .await?;
    Reply::json(&reply)
}

/// Counts the users who hold an offer. Counting is expensive, so it happens only if an offer is removed, and then once.
fn holders(accounts: Accounts, grants: Grants, now: UnixSeconds) -> impl Fn(&Offer) -> usize {
    let held = OnceCell::new();
    let all_users = OnceCell::new();
    move |offer| match offer.kind {
        OfferKind::Default => *all_users.get_or_init(|| accounts.counts().values().sum()),
        _ => {
            let held = held.get_or_init(|| grants.holders(now));
            held.get(&offer.id).copied().unwrap_or_default()
        }
    }
}

pub(crate) async fn history(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
) -> Result<Reply, ApiError> {
    let catalog = services.catalog.clone();
    let versions = cold(services, move || catalog.history()).await?;
    let lines: Vec<_> = versions.into_iter().map(CatalogVersion::from).collect();
    Reply::json(&lines)
}

pub(crate) async fn undo(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: UndoCatalogRequest,
) -> Result<Reply, ApiError> {
    let (catalog, now) = (services.catalog.clone(), cx.now);
    let (accounts, grants) = (services.accounts.clone(), services.grants.clone());
    let schedule = Arc::clone(&services.schedule);
    let reply = bulk(services, move || -> Result<_, ApiError> {
        let is_broadcast = |id: &str| {
            BroadcastId::parse(id).is_ok_and(|id| schedule.snapshot().program(&id).is_some())
        };
        let holders = holders(accounts, grants, now);
        let options = Undo {
            version: request.version,
            dry_run: request.dry_run,
            now,
            holders: &holders,
            write: &catalog_file::to_json,
            read: &|text| catalog_file::parse(text, None),
        };
        let (version, undone) = catalog.undo(&options, &is_broadcast)?;
        // As after an import: rendered broadcasts contain their rights.
        if !request.dry_run && !undone.difference.changes.is_empty() {
            schedule.refresh().map_err(ApiError::internal)?;
        }
        Ok(CatalogUndo {
            version,
            report: CatalogImportBody::new(undone, request.dry_run),
        })
    })
    .await?;
    Reply::json(&reply)
}

#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CatalogUndo {
    /// Number of the version that was put in place.
    pub version: u64,
    #[serde(flatten)]
    pub report: CatalogImportBody,
}

#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CatalogVersion {
    /// Version number, counted from 1.
    version: u64,
    /// Time at which this version was replaced.
    replaced_at: UnixSeconds,
    /// Operation that replaced this version.
    #[described(JsonType::OneOf(&["import", "undo"]))]
    replaced_by: &'static str,
    /// Number of livestreams in this version.
    livestreams: u32,
    /// Number of assets in this version.
    assets: u32,
    /// Number of offers in this version.
    offers: u32,
    /// Number of rules in this version.
    rules: u32,
}

impl From<Version> for CatalogVersion {
    fn from(version: Version) -> Self {
        let Version { number, record } = version;
        Self {
            version: number,
            replaced_at: record.replaced,
            replaced_by: record.by.as_str(),
            livestreams: record.livestreams,
            assets: record.assets,
            offers: record.offers,
            rules: record.rules,
        }
    }
}
