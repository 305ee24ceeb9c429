//! Handlers of catalogue and guide.

use crate::app::App;
use crate::http::api::unwritten;
use crate::http::auth::OperatorAuth;
use crate::http::context::Context;
use crate::http::endpoint::admin::content::{ImportCatalogRequest, ImportGuideRequest};
use crate::http::error::ApiError;
use crate::http::reply::Reply;

/// GET the catalogue.
///
/// # Errors
/// As the decisions list them.
pub async fn export_catalog(
    _app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// POST the catalogue.
///
/// # Errors
/// As the decisions list them.
pub async fn import_catalog(
    _app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    _request: ImportCatalogRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// POST a guide.
///
/// # Errors
/// As the decisions list them.
pub async fn import_guide(
    _app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    _request: ImportGuideRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}
