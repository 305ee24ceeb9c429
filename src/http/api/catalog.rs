//! Handlers of the catalogue for clients.

use crate::app::App;
use crate::http::api::unwritten;
use crate::http::auth::PartnerAuth;
use crate::http::context::Context;
use crate::http::error::ApiError;
use crate::http::reply::Reply;

/// The livestreams.
///
/// # Errors
/// As the decisions list them.
pub async fn livestreams(_app: &App, _cx: &Context, _auth: PartnerAuth) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// The videos on demand.
///
/// # Errors
/// As the decisions list them.
pub async fn assets(_app: &App, _cx: &Context, _auth: PartnerAuth) -> Result<Reply, ApiError> {
    Err(unwritten())
}
