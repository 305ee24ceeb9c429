//! Handler of the ingestion of telemetry.

use http::StatusCode;

use crate::domain::telemetry::{Sender, TelemetryError};
use crate::http::access::auth::UserAuth;
use crate::http::errors::api_error::{ApiError, ErrorCode};
use crate::http::request::context::Context;
use crate::http::response::reply::Reply;
use crate::http::routing::endpoint::telemetry::TelemetryRequest;
use crate::http::wire::telemetry::{Batch, TakenBody};
use crate::services::Services;

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

pub(crate) async fn telemetry(
    services: &Services,
    cx: &Context,
    auth: UserAuth,
    request: TelemetryRequest,
) -> Result<Reply, ApiError> {
    let telemetry = services.telemetry.clone();
    let now = cx.now;
    let sender = Sender {
        user: auth.user(),
        partner: auth.partner(),
    };
    // In a pool: parsing a megabyte of JSON takes milliseconds, a write to a slow disk longer.
    let body = services
        .cold
        .run(move |()| {
            let Batch { events, rejected } = Batch::read(&request.body)?;
            let taken = telemetry.accept(sender, events, now)?;
            Ok::<_, ApiError>(TakenBody::new(taken, rejected))
        })?
        .await??;
    Reply::json_with(StatusCode::ACCEPTED, &body)
}
