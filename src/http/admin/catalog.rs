//! Handlers of the catalogue file.

use std::sync::Arc;

use http::HeaderValue;

use crate::app::App;
use crate::catalog_file;
use crate::domain::catalog::Mode;
use crate::http::auth::OperatorAuth;
use crate::http::context::Context;
use crate::http::endpoint::admin::content::{
    CatalogFormat, ExportCatalogRequest, ImportCatalogRequest,
};
use crate::http::error::ApiError;
use crate::http::reply::{Reply, media};
use crate::http::run::{bulk, cold};
use crate::http::wire::catalog::ImportReply;
use crate::types::BroadcastId;

/// GET the catalogue in the form that can be imported again, without content keys.
///
/// # Errors
/// `OVERLOADED`.
pub async fn export_catalog(
    app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    request: ExportCatalogRequest,
) -> Result<Reply, ApiError> {
    let snapshot = app.catalog.snapshot();
    let (media, text) = cold(app, move || -> Result<_, ApiError> {
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

/// POST a catalogue file, TOML or JSON: all of it is imported or nothing.
///
/// # Errors
/// `IMPORT_INVALID` with every mistake and its line.
pub async fn import_catalog(
    app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    request: ImportCatalogRequest,
) -> Result<Reply, ApiError> {
    let catalog = app.catalog.clone();
    let schedule = Arc::clone(&app.schedule);
    let reply = bulk(app, move || -> Result<_, ApiError> {
        let text = std::str::from_utf8(&request.file)
            .map_err(|_| ApiError::malformed("the file is not UTF-8"))?;
        let file = catalog_file::parse(text, None);
        let mode = if request.merge {
            Mode::Merge
        } else {
            Mode::Replace
        };
        let is_broadcast = |id: &str| {
            BroadcastId::parse(id).is_ok_and(|id| schedule.snapshot().program(&id).is_some())
        };
        let difference = catalog.import(file, mode, request.dry_run, &is_broadcast)?;
        if !request.dry_run && !difference.changes.is_empty() {
            schedule.refresh().map_err(ApiError::internal)?;
        }
        Ok(ImportReply::new(difference, request.dry_run))
    })
    .await?;
    Reply::json(&reply)
}
