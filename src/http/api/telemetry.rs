//! Handler of telemetry.

use http::StatusCode;

use crate::app::App;
use crate::domain::telemetry::{Sender, TelemetryError};
use crate::http::auth::UserAuth;
use crate::http::context::Context;
use crate::http::endpoint::telemetry::TelemetryRequest;
use crate::http::error::{ApiError, ErrorCode};
use crate::http::reply::Reply;
use crate::http::wire::telemetry::{Batch, TakenBody};

impl From<TelemetryError> for ApiError {
    fn from(error: TelemetryError) -> Self {
        match error {
            TelemetryError::Full | TelemetryError::Overloaded | TelemetryError::Failed(_) => {
                Self::new(
                    ErrorCode::StoreUnavailable,
                    "events cannot be kept at present; keep them and try again",
                )
                .with_cause(error)
            }
            TelemetryError::UserGone => {
                Self::new(ErrorCode::UserTokenInvalid, "the user's account is gone")
                    .with_token_sent()
            }
            TelemetryError::OverBudget(limit) => Self::new(
                ErrorCode::RateLimited,
                "no more events are kept for now; keep them and try again, see Retry-After",
            )
            .with_limit(limit),
            TelemetryError::Io(_) => Self::internal(error),
        }
    }
}

/// POST telemetry-events: 202 with what was taken, what was known, and what was refused.
///
/// # Errors
/// `INVALID_REQUEST`, `PAYLOAD_TOO_LARGE`, `STORE_UNAVAILABLE`, `OVERLOADED`.
pub async fn telemetry(
    app: &App,
    cx: &Context,
    auth: UserAuth,
    request: TelemetryRequest,
) -> Result<Reply, ApiError> {
    let telemetry = app.telemetry.clone();
    let now = cx.now;
    let sender = Sender {
        user: auth.user(),
        partner: auth.partner(),
    };
    // Off the runtime's threads: a megabyte of JSON takes milliseconds, a write to a slow disk more.
    let body = app
        .cold
        .run(move |()| {
            let Batch { events, rejected } = Batch::read(&request.body)?;
            let taken = telemetry.accept(sender, events, now)?;
            Ok::<_, ApiError>(TakenBody::new(taken, rejected))
        })?
        .await??;
    Reply::json_with(StatusCode::ACCEPTED, &body)
}
