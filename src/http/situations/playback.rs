//! The situations of playback and license servers.

use crate::domain::playback::{EndReason, InTheWay, PlaybackError};
use crate::http::error::{ApiError, Details, ErrorCode, SessionInTheWay};
use crate::ports::upstream::UpstreamError;

impl From<PlaybackError> for ApiError {
    fn from(error: PlaybackError) -> Self {
        use PlaybackError as E;
        let code = match error {
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
                return Self::new(ErrorCode::UserTokenInvalid, error.to_string()).with_token_sent();
            }
            E::DrmProtocolMismatch(_) => ErrorCode::DrmProtocolMismatch,
            E::EntitlementInvalid => ErrorCode::EntitlementInvalid,
            E::GeoBlocked => ErrorCode::GeoBlocked,
            E::DeviceLimitReached => ErrorCode::DeviceLimitReached,
            E::AssetNotFound => ErrorCode::AssetNotFound,
            E::ProtocolNotAvailable | E::NoPlaylist | E::NoLicenseServer(_) => {
                ErrorCode::ProtocolNotAvailable
            }
            E::SessionNotFound => ErrorCode::SessionNotFound,
            E::EntitlementExpired => ErrorCode::EntitlementExpired,
            E::SessionMismatch => ErrorCode::SessionMismatch,
            E::NoLiveRights { .. } => ErrorCode::NoLiveRights,
            E::NotAvailable => ErrorCode::NotAvailable,
            E::PinCodeRequired => ErrorCode::PinCodeRequired,
            E::DrmMismatch => ErrorCode::DrmMismatch,
            E::KeyNotAllowed => ErrorCode::KeyNotAllowed,
            E::DeviceNotFound => ErrorCode::DeviceNotFound,
        };
        Self::new(code, error.to_string())
    }
}

fn stream_limit(sessions: Vec<InTheWay>) -> ApiError {
    let sessions = sessions
        .into_iter()
        .map(|way| SessionInTheWay {
            session_id: way.session.to_string(),
            device_id: way.device.id.as_str().to_owned(),
            device_model: way.device.model,
            device_type: way.device.kind,
            asset_id: way.asset.as_str().to_owned(),
            since: way.since.0,
        })
        .collect();
    ApiError::new(
        ErrorCode::StreamLimitReached,
        "the user has as many streams as may run at once; details lists those in the way",
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
        let (code, message) = match error {
            UpstreamError::TimedOut => (
                ErrorCode::LicenseServerTimeout,
                "the license server did not answer in time",
            ),
            UpstreamError::Busy => (
                ErrorCode::Overloaded,
                "too many licenses are being waited for; try again shortly",
            ),
            UpstreamError::Status(_)
            | UpstreamError::Refused(_)
            | UpstreamError::TooLarge
            | UpstreamError::Resting
            | UpstreamError::Connection(_) => (
                ErrorCode::LicenseServerFailed,
                "the license server gave no license",
            ),
        };
        Self::new(code, message).with_cause(error)
    }
}
