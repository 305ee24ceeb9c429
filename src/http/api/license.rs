//! Handlers of licenses and certificates.

use http::HeaderValue;

use crate::app::App;
use crate::domain::playback;
use crate::http::auth::{PartnerAuth, UserAuth};
use crate::http::context::Context;
use crate::http::endpoint::playback::LicenseRequest;
use crate::http::error::{ApiError, ErrorCode};
use crate::http::reply::{Reply, media};
use crate::http::wire::playback::{ClearKeyBody, clear_key_ids, custom_data};
use crate::ports::upstream::License;
use crate::types::Drm;

/// POST license: checked here, and answered from the catalogue's keys or by the license server of
/// the system.
///
/// # Errors
/// Part 6 of the decisions.
pub async fn license(
    app: &App,
    cx: &Context,
    auth: UserAuth,
    request: LicenseRequest,
) -> Result<Reply, ApiError> {
    let drm = request.system;
    let kids = match drm {
        Drm::Clearkey => clear_key_ids(&request.challenge)?,
        _ => playback::challenge::key_ids(drm, &request.challenge),
    };
    let asked = playback::LicenseRequest {
        user: &auth.user(),
        session: Some(request.session),
        token: request.entitlement,
        device: None,
        drm,
        kids: &kids,
    };
    let session = app.playback.license(&asked, cx.now)?;
    let asset = &session.start.asset;
    if drm == Drm::Clearkey {
        let keys = app.playback.clear_keys(asset, &kids)?;
        return Reply::json(&ClearKeyBody::of(&keys));
    }
    let server = app.licenses.of(drm).ok_or_else(|| not_configured(drm))?;
    let custom = custom_data(auth.user(), session.id, asset)?;
    let custom = HeaderValue::try_from(custom).map_err(ApiError::internal)?;
    let License { media, body } = server.license(request.challenge, custom).await?;
    Ok(Reply::bytes(media.unwrap_or(media::BYTES), body))
}

fn not_configured(drm: Drm) -> ApiError {
    let name = drm.as_str();
    ApiError::new(
        ErrorCode::LicenseServerFailed,
        format!("no license server is configured for {name}: set `license.{name}.url`"),
    )
}

/// GET fairplay/certificate.
///
/// # Errors
/// `CERTIFICATE_NOT_CONFIGURED`.
pub async fn fairplay_certificate(
    app: &App,
    _cx: &Context,
    _auth: PartnerAuth,
) -> Result<Reply, ApiError> {
    match &app.licenses.fairplay_certificate {
        Some(certificate) => Ok(Reply::bytes(media::BYTES, certificate.clone())),
        None => Err(ApiError::new(
            ErrorCode::CertificateNotConfigured,
            "no certificate is configured: set `license.fairplay.certificate`",
        )),
    }
}
