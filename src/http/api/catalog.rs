//! Handlers of the catalogue for clients, without which they could not learn an id.

use crate::app::App;
use crate::http::auth::PartnerAuth;
use crate::http::context::Context;
use crate::http::error::ApiError;
use crate::http::reply::Reply;
use crate::http::wire::catalog::{AssetReply, LivestreamReply};

/// The livestreams, by id.
///
/// # Errors
/// None of its own.
pub async fn livestreams(app: &App, _cx: &Context, _auth: PartnerAuth) -> Result<Reply, ApiError> {
    let snapshot = app.catalog.snapshot();
    let livestreams = snapshot.livestreams();
    let lines: Vec<_> = livestreams
        .map(|one| LivestreamReply::from(&**one))
        .collect();
    Reply::json(&lines)
}

/// The videos on demand, by id.
///
/// # Errors
/// None of its own.
pub async fn assets(app: &App, _cx: &Context, _auth: PartnerAuth) -> Result<Reply, ApiError> {
    let snapshot = app.catalog.snapshot();
    let assets = snapshot.assets();
    let lines: Vec<_> = assets.map(|one| AssetReply::from(&**one)).collect();
    Reply::json(&lines)
}
