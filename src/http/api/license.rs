//! Handlers of DRM licenses and certificates.

use std::sync::Arc;
use std::time::Instant;

use http::StatusCode;

use crate::domain::playback::{self, Session};
use crate::http::access::auth::{PartnerAuth, UserAuth};
use crate::http::errors::api_error::{ApiError, ErrorCode};
use crate::http::metrics::LicenseResult;
use crate::http::request::context::Context;
use crate::http::response::reply::{Reply, media};
use crate::http::routing::endpoint::playback::LicenseRequest;
use crate::http::state::HttpState;
use crate::http::wire::playback::ClearKeyBody;
use crate::ports::license_server::{License, LicenseSubject, UpstreamError};
use crate::services::Services;
use crate::types::Drm;

/// Length in bytes of a Widevine request for a service certificate. A license challenge has
/// hundreds.
const CERTIFICATE_REQUEST: std::ops::RangeInclusive<usize> = 2..=4;

pub(crate) async fn license(
    http: &HttpState,
    cx: &Context,
    auth: UserAuth,
    request: LicenseRequest,
) -> Result<Reply, ApiError> {
    let services = &http.services;
    let drm = request.system;
    let certificate =
        drm == Drm::Widevine && CERTIFICATE_REQUEST.contains(&request.challenge.len());
    let (user, id) = (auth.user(), request.session);
    let count = |result| {
        http.metrics.license(drm, result);
        if matches!(result, LicenseResult::Denied | LicenseResult::Refused) {
            services.quality.license_refused(&user, id, cx.server_now);
        }
    };
    let authorized = authorize(services, cx, &auth, &request);
    // Checked before the license server is called, so that it never sees a request without a right.
    let session = authorized.inspect_err(|_| count(LicenseResult::Denied))?;
    let asset = &session.start.asset;
    if drm == Drm::Clearkey {
        let keys = services.playback.clear_keys(asset, &request.kids);
        let keys = keys.inspect_err(|_| count(LicenseResult::Denied))?;
        count(LicenseResult::Issued);
        return Reply::json(&ClearKeyBody::new(&keys));
    }
    let server = services
        .licenses
        .get(drm)
        .ok_or_else(|| not_configured(drm))?;
    let subject = LicenseSubject {
        user: session.user,
        session: session.id,
        // The key ids of the asset, not of the challenge: the license server must not issue keys that a client asks
        // for.
        kids: services.playback.key_ids(asset),
        asset: asset.clone(),
        // License servers compare it with their own clock.
        now: cx.server_now,
    };
    let asked = Instant::now();
    let answer = server.license(request.challenge, subject).await;
    cx.trace.step("licenseServer", answer.is_ok(), || {
        let millis = asked.elapsed().as_millis();
        match &answer {
            Ok(_) => format!("answered with a license in {millis} ms"),
            Err(error) => format!("{error}, after {millis} ms"),
        }
    });
    count(match &answer {
        // Counted apart from licenses: every player asks for it once, and it decrypts nothing.
        Ok(_) if certificate => LicenseResult::Certificate,
        Ok(_) => LicenseResult::Issued,
        Err(error) => LicenseResult::from_error(error),
    });
    match answer {
        Ok(license) => Ok(forward(license)),
        // The refusal of the license server reaches the player unchanged, with 403: neither this
        // service nor the license server has failed.
        Err(UpstreamError::Refused(fault)) => Ok(forward(fault).with_status(StatusCode::FORBIDDEN)),
        Err(error) => Err(error.into()),
    }
}

fn authorize(
    services: &Services,
    cx: &Context,
    auth: &UserAuth,
    request: &LicenseRequest,
) -> Result<Arc<Session>, ApiError> {
    let request = playback::LicenseAttempt {
        user: &auth.user(),
        session: Some(request.session),
        token: request.entitlement,
        device: None,
        drm: request.system,
        kids: &request.kids,
        trace: &cx.trace,
    };
    Ok(services.playback.license(&request, cx.time())?)
}

fn forward(License { media, body }: License) -> Reply {
    Reply::bytes(media.unwrap_or(media::BYTES), body)
}

fn not_configured(drm: Drm) -> ApiError {
    let name = drm.as_str();
    ApiError::new(
        ErrorCode::LicenseServerFailed,
        format!("no license server is configured for {name}: set `license.{name}.url`"),
    )
}

pub(crate) async fn fairplay_certificate(
    services: &Services,
    _cx: &Context,
    _auth: PartnerAuth,
) -> Result<Reply, ApiError> {
    match &services.licenses.fairplay_certificate {
        Some(certificate) => Ok(Reply::bytes(media::BYTES, certificate.clone())),
        None => Err(ApiError::new(
            ErrorCode::CertificateNotConfigured,
            "no certificate is configured: set `license.fairplay.certificate`",
        )),
    }
}
