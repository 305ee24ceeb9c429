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
use playgate_formats::catalog_report::ImportReply;
use playgate_http::offload::{bulk, cold};
use playgate_http::response::reply::media;
use playgate_http::{
    ApiError, CombineResults, Context, Input, OperatorAuth, ParseRequest, Payload, Reply,
};
use playgate_services::Services;
use playgate_types::{BroadcastId, Malformed, UnixSeconds};

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
        Ok(ImportReply::new(imported, request.dry_run))
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
    let lines: Vec<_> = versions.into_iter().map(VersionLine::from).collect();
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
        Ok(UndoReply {
            version,
            report: ImportReply::new(undone, request.dry_run),
        })
    })
    .await?;
    Reply::json(&reply)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UndoReply {
    pub version: u64,
    #[serde(flatten)]
    pub report: ImportReply,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VersionLine {
    version: u64,
    replaced_at: i64,
    replaced_by: &'static str,
    livestreams: u32,
    assets: u32,
    offers: u32,
    rules: u32,
}

impl From<Version> for VersionLine {
    fn from(version: Version) -> Self {
        let Version { number, record } = version;
        Self {
            version: number,
            replaced_at: record.replaced.0,
            replaced_by: record.by.as_str(),
            livestreams: record.livestreams,
            assets: record.assets,
            offers: record.offers,
            rules: record.rules,
        }
    }
}
