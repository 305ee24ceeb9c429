//! Handlers of licenses and certificates.

use std::sync::Arc;

use http::StatusCode;

use crate::app::App;
use crate::domain::playback::{self, Session};
use crate::http::auth::{PartnerAuth, UserAuth};
use crate::http::context::Context;
use crate::http::endpoint::playback::LicenseRequest;
use crate::http::error::{ApiError, ErrorCode};
use crate::http::metrics::LicenseResult;
use crate::http::reply::{Reply, media};
use crate::http::wire::playback::ClearKeyBody;
use crate::ports::license_server::{License, LicenseSubject, UpstreamError};
use crate::types::Drm;

/// The bytes that a Widevine request for a service certificate has; a challenge has hundreds.
const CERTIFICATE_REQUEST: std::ops::RangeInclusive<usize> = 2..=4;

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
    let certificate =
        drm == Drm::Widevine && CERTIFICATE_REQUEST.contains(&request.challenge.len());
    let count = |result| app.front.metrics.license(drm, result);
    let asked = judge(app, cx, &auth, &request);
    let session = asked.inspect_err(|_| count(LicenseResult::Denied))?;
    let asset = &session.start.asset;
    if drm == Drm::Clearkey {
        let keys = app.playback.clear_keys(asset, &request.kids);
        let keys = keys.inspect_err(|_| count(LicenseResult::Denied))?;
        count(LicenseResult::Issued);
        return Reply::json(&ClearKeyBody::new(&keys));
    }
    let server = app.licenses.get(drm).ok_or_else(|| not_configured(drm))?;
    let about = LicenseSubject {
        user: session.user,
        session: session.id,
        kids: app.playback.key_ids(asset),
        asset: asset.clone(),
        now: cx.now,
    };
    let answer = server.license(request.challenge, about).await;
    count(match &answer {
        // Decision: what every player asks for once, and no viewer watches by, counts as no license.
        Ok(_) if certificate => LicenseResult::Certificate,
        Ok(_) => LicenseResult::Issued,
        Err(error) => LicenseResult::from_error(error),
    });
    match answer {
        Ok(license) => Ok(passed_on(license)),
        // Decision: the license server's own words reach the player, as a refusal: it is none of
        // ours that failed, nor theirs.
        Err(UpstreamError::Refused(fault)) => {
            Ok(passed_on(fault).with_status(StatusCode::FORBIDDEN))
        }
        Err(error) => Err(error.into()),
    }
}

/// The session, once nothing is in the license's way.
fn judge(
    app: &App,
    cx: &Context,
    auth: &UserAuth,
    request: &LicenseRequest,
) -> Result<Arc<Session>, ApiError> {
    let asked = playback::LicenseRequest {
        user: &auth.user(),
        session: Some(request.session),
        token: request.entitlement,
        device: None,
        drm: request.system,
        kids: &request.kids,
    };
    Ok(app.playback.license(&asked, cx.now)?)
}

fn passed_on(License { media, body }: License) -> Reply {
    Reply::bytes(media.unwrap_or(media::BYTES), body)
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
