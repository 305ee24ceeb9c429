//! Handler of telemetry.

use crate::app::App;
use crate::http::api::unwritten;
use crate::http::auth::UserAuth;
use crate::http::context::Context;
use crate::http::endpoint::telemetry::TelemetryRequest;
use crate::http::error::ApiError;
use crate::http::reply::Reply;

/// POST telemetry-events.
///
/// # Errors
/// As the decisions list them.
pub async fn telemetry(
    _app: &App,
    _cx: &Context,
    _auth: UserAuth,
    _request: TelemetryRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}
