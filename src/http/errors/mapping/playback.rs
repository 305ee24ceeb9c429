//! Maps errors of playback and license servers to API errors.

use std::borrow::Cow;

use crate::errors::api_error::{ApiError, BlockingSessionBody, Details, ErrorCode};
use playgate_domain::playback::{BlockingSession, EndReason, PlaybackError};
use playgate_ports::license_server::UpstreamError;

impl From<PlaybackError> for ApiError {
    fn from(error: PlaybackError) -> Self {
        use PlaybackError as E;
        let (code, message): (_, Cow<'static, str>) = match error {
            E::StreamLimitReached(sessions) => return stream_limit(sessions),
            E::SessionEnded(reason) => {
                return Self::new(ErrorCode::SessionEnded, ended(reason)).with_details(
                    Details::Reason {
                        reason: reason.as_str(),
                    },
                );
            }
            E::TooManyBeats(limit) => {
                let message = "too many heartbeats; see Retry-After";
                return Self::new(ErrorCode::RateLimited, message).with_limit(limit);
            }
            E::Store(error) => return error.into(),
            E::UserGone => {
                let message = "the account of the user was removed";
                return Self::new(ErrorCode::UserTokenInvalid, message).with_token_sent();
            }
            E::DrmProtocolMismatch(why) => (ErrorCode::DrmProtocolMismatch, why.into()),
            E::EntitlementInvalid => (
                ErrorCode::EntitlementInvalid,
                "the entitlement is not valid here".into(),
            ),
            E::GeoBlocked => (
                ErrorCode::GeoBlocked,
                "the entitlement is not valid in this country".into(),
            ),
            E::DeviceLimitReached => (
                ErrorCode::DeviceLimitReached,
                "the device limit is reached; remove a device first".into(),
            ),
            E::AssetNotFound => (ErrorCode::AssetNotFound, "no asset has this id".into()),
            E::ProtocolNotAvailable => (
                ErrorCode::ProtocolNotAvailable,
                "the asset has no playlist for this protocol".into(),
            ),
            E::NoPlaylist => (
                ErrorCode::ProtocolNotAvailable,
                "the catalogue has no playlist for this asset, so no protocol can play it".into(),
            ),
            E::NoLicenseServer(drm) => (
                ErrorCode::ProtocolNotAvailable,
                format!(
                    "the asset is encrypted, and no license server is configured for {drm}: set \
                     `license.{drm}.url`",
                    drm = drm.as_str()
                )
                .into(),
            ),
            E::NotAvailable => (
                ErrorCode::NotAvailable,
                "the playing position is behind the live point, and neither start-over, rewind nor \
                 catch-up reaches back to it"
                    .into(),
            ),
            E::SessionNotFound => (ErrorCode::SessionNotFound, "no session has this id".into()),
            E::EntitlementExpired => (ErrorCode::EntitlementExpired, "the entitlement has expired".into()),
            E::SessionMismatch => (
                ErrorCode::SessionMismatch,
                "the session belongs to another user, device or asset".into(),
            ),
            // A heartbeat answers 552 instead if the livestream has live rights by default; see `heartbeat_error`.
            E::NoLiveRights { .. } => (ErrorCode::NoLiveRights, "the program has no live rights".into()),
            E::PinCodeRequired => (
                ErrorCode::PinCodeRequired,
                "the program needs a PIN; ask for an entitlement with `pinCode`".into(),
            ),
            E::DrmMismatch => (
                ErrorCode::DrmMismatch,
                "the session was started with another DRM system".into(),
            ),
            E::KeyNotAllowed => (ErrorCode::KeyNotAllowed, "a key id does not belong to this asset".into()),
            E::DeviceNotFound => (ErrorCode::DeviceNotFound, "no device has this id".into()),
        };
        Self::new(code, message)
    }
}

fn stream_limit(sessions: Vec<BlockingSession>) -> ApiError {
    let sessions = sessions
        .into_iter()
        .map(|session| BlockingSessionBody {
            session_id: session.session.to_string(),
            device_id: session.device.id.as_str().to_owned(),
            device_model: session.device.model.to_string(),
            device_type: session.device.kind.to_string(),
            asset_id: session.asset.as_str().to_owned(),
            since: session.since.0,
        })
        .collect();
    ApiError::new(
        ErrorCode::StreamLimitReached,
        "the stream limit is reached; details.sessions lists the running sessions",
    )
    .with_details(Details::Sessions { sessions })
}

fn ended(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Stopped => "the session was stopped by its player",
        EndReason::Expired => "the session has expired: no heartbeat came in time",
        EndReason::Displaced => "the session was displaced by another device of the user",
        EndReason::Replaced => "the session was displaced by a new start on the same device",
        EndReason::Revoked => "the session was revoked",
        EndReason::SignedOut => "the session ended because its user logged out",
        EndReason::Erased => "the session ended because its user's account was erased",
    }
}

impl From<UpstreamError> for ApiError {
    fn from(error: UpstreamError) -> Self {
        let answer = match &error {
            UpstreamError::TimedOut => Self::new(
                ErrorCode::LicenseServerTimeout,
                "the license server did not answer in time",
            ),
            UpstreamError::Refused(refusal) => {
                let status = refusal.status.as_u16();
                Self::new(
                    ErrorCode::LicenseRefused,
                    format!("the license server refused the request with status {status}; do not repeat it"),
                )
                .with_details(Details::Status { status })
            }
            UpstreamError::Limited(wait) => {
                let limited = Self::new(
                    ErrorCode::RateLimited,
                    "the license server limits requests; see Retry-After",
                );
                let wait = wait.or(limited.retry_after());
                limited.with_retry_after(wait.unwrap_or(1))
            }
            UpstreamError::Status(_)
            | UpstreamError::Empty
            | UpstreamError::TooLarge
            | UpstreamError::Resting
            | UpstreamError::Connection(_) => Self::new(
                ErrorCode::LicenseServerFailed,
                "the license server returned no license",
            ),
        };
        answer.with_cause(error)
    }
}
