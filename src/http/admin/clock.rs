//! Handlers of the clock: its state, the acceptance of a clock jump, and the movable lab clock.

use std::sync::Arc;

use serde::Serialize;

use crate::http::access::auth::OperatorAuth;
use crate::http::errors::api_error::{ApiError, ErrorCode};
use crate::http::offload::cold;
use crate::http::request::context::Context;
use crate::http::response::reply::Reply;
use crate::http::routing::endpoint::admin::system::MoveClockRequest;
use crate::ports::LabClock;
use crate::services::Services;

#[derive(Serialize)]
struct ClockBody {
    now: i64,
    offset: i64,
    movable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    jump: Option<i64>,
}

fn body(services: &Services) -> Result<Reply, ApiError> {
    Reply::json(&ClockBody {
        now: services.clock.now().0,
        offset: services.lab.as_ref().map_or(0, |lab| lab.offset()),
        movable: services.lab.is_some(),
        jump: services
            .clock_guard
            .untrusted_jump()
            .map(|jump| jump.seconds()),
    })
}

fn lab(services: &Services) -> Result<&LabClock, ApiError> {
    services.lab.as_deref().ok_or_else(|| {
        ApiError::new(
            ErrorCode::LabClockOff,
            "the clock cannot be moved: `lab.clock` is off",
        )
    })
}

pub(crate) fn read(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
) -> Result<Reply, ApiError> {
    body(services)
}

pub(crate) async fn shift(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: MoveClockRequest,
) -> Result<Reply, ApiError> {
    let lab = lab(services)?;
    match request {
        MoveClockRequest::Now(now) => lab.set_now(now),
        MoveClockRequest::Offset(seconds) => lab.set_offset(seconds),
    }
    tracing::warn!(offset = lab.offset(), "moved the lab clock");
    respond_after_move(services).await
}

pub(crate) async fn reset(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
) -> Result<Reply, ApiError> {
    lab(services)?.set_offset(0);
    respond_after_move(services).await
}

async fn respond_after_move(services: &Services) -> Result<Reply, ApiError> {
    // Everything that expires sees the move before the response.
    let guard = Arc::clone(&services.clock_guard);
    cold(services, move || {
        // The result is not lost: `body` reads a clock jump from the guard again.
        let _ = guard.check();
        Ok::<_, ApiError>(())
    })
    .await?;
    body(services)
}

/// `POST /admin/v1/clock/accept`: accepts a clock jump at once, without the waiting time that
/// confirms it.
pub(crate) async fn accept(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
) -> Result<Reply, ApiError> {
    let guard = Arc::clone(&services.clock_guard);
    cold(services, move || {
        guard.accept();
        Ok::<_, ApiError>(())
    })
    .await?;
    body(services)
}
