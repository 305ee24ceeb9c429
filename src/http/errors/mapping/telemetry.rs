//! Errors of telemetry and of quality reports.

use crate::errors::api_error::{ApiError, ErrorCode};
use playgate_records::quality::QualityError;
use playgate_records::telemetry::TelemetryError;

impl From<TelemetryError> for ApiError {
    fn from(error: TelemetryError) -> Self {
        match error {
            TelemetryError::Full
            | TelemetryError::Overloaded
            | TelemetryError::SyncOverdue
            | TelemetryError::Failed(_) => Self::new(
                ErrorCode::StoreUnavailable,
                "events cannot be stored at present; keep them and retry later",
            )
            .with_cause(error),
            TelemetryError::UserGone => {
                Self::new(ErrorCode::UserTokenInvalid, "the user's account is gone")
                    .with_token_sent()
            }
            TelemetryError::OverBudget(limit) => Self::new(
                ErrorCode::RateLimited,
                "too many events; keep them and retry after the time in Retry-After",
            )
            .with_limit(limit),
            TelemetryError::Io(_) => Self::internal(error),
        }
    }
}

impl From<QualityError> for ApiError {
    fn from(error: QualityError) -> Self {
        match error {
            QualityError::TooManyRows(most) => Self::field(
                "by",
                format!("gives over {most} rows; ask for a shorter span or fewer dimensions"),
            ),
            QualityError::Io(_) => Self::internal(error),
        }
    }
}
