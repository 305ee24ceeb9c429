//! Handlers of licenses and certificates.

use crate::app::App;
use crate::http::api::unwritten;
use crate::http::auth::{PartnerAuth, UserAuth};
use crate::http::context::Context;
use crate::http::endpoint::playback::LicenseRequest;
use crate::http::error::ApiError;
use crate::http::reply::Reply;

/// POST license.
///
/// # Errors
/// As the decisions list them.
pub async fn license(
    _app: &App,
    _cx: &Context,
    _auth: UserAuth,
    _request: LicenseRequest,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}

/// GET fairplay/certificate.
///
/// # Errors
/// As the decisions list them.
pub async fn fairplay_certificate(
    _app: &App,
    _cx: &Context,
    _auth: PartnerAuth,
) -> Result<Reply, ApiError> {
    Err(unwritten())
}
