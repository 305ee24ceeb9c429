//! Handlers of the clock: its state, the acceptance of a clock jump, and the movable lab clock.

pub(crate) mod request;

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::lab::lab_partner;
use crate::operators::clock::request::MoveClockRequest;
use crate::operators::lab::request::MovePartnerClockRequest;
use crate::operators::partners::request::PartnerRequest;
use playgate_http::access::auth::OperatorAuth;
use playgate_http::errors::api_error::{ApiError, ErrorCode};
use playgate_http::offload::cold;
use playgate_http::request::context::Context;
use playgate_http::response::reply::Reply;
use playgate_ports::LabClock;
use playgate_services::Services;
use playgate_types::PartnerId;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ClockBody {
    now: i64,
    offset: i64,
    movable: bool,
    /// How fast the clock runs, compared with real time; 0 if it is stopped.
    scale: f64,
    /// Background jobs that had not ended when the response was sent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pending_jobs: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jump: Option<i64>,
}

/// How long a move of the clock waits for the jobs that it makes due. It is below the deadline of the route.
const JOBS_TIME: Duration = Duration::from_secs(8);

fn body(services: &Services, pending_jobs: Vec<&'static str>) -> Result<Reply, ApiError> {
    let pace = services
        .lab_clock
        .as_ref()
        .map_or(LabClock::REAL_PACE, |lab| lab.pace());
    Reply::json(&ClockBody {
        now: services.clock.now().0,
        offset: services.lab_clock.as_ref().map_or(0, |lab| lab.offset()),
        movable: services.lab_clock.is_some(),
        scale: f64::from(i32::try_from(pace).unwrap_or(i32::MAX)) / 1_000.0,
        pending_jobs,
        jump: services
            .clock_guard
            .untrusted_jump()
            .map(|jump| jump.seconds()),
    })
}

fn lab(services: &Services) -> Result<&LabClock, ApiError> {
    services.lab_clock.as_deref().ok_or_else(|| {
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
    body(services, Vec::new())
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
        MoveClockRequest::Advance(seconds) => lab.advance(seconds),
        MoveClockRequest::Pace(thousandths) => lab.set_pace(thousandths),
    }
    tracing::warn!(offset = lab.offset(), "moved the lab clock");
    respond_after_move(services).await
}

pub(crate) async fn reset(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
) -> Result<Reply, ApiError> {
    lab(services)?.reset();
    respond_after_move(services).await
}

/// Responds when the jobs that the move made due have run.
async fn respond_after_move(services: &Services) -> Result<Reply, ApiError> {
    let guard = Arc::clone(&services.clock_guard);
    cold(services, move || {
        // Checked first, so that the jobs see the move. The result is not lost: `body` reads a clock jump from the
        // guard.
        let _ = guard.check();
        Ok::<_, ApiError>(())
    })
    .await?;
    let due = Arc::clone(&services.due_jobs);
    let pending = cold(services, move || Ok::<_, ApiError>(due.run(JOBS_TIME))).await?;
    body(services, pending)
}

#[derive(Serialize)]
struct PartnerClockBody {
    now: i64,
    offset: i64,
}

fn partner_body(services: &Services, partner: &PartnerId) -> Result<Reply, ApiError> {
    let offset = services.lab.clock_offset(partner);
    Reply::json(&PartnerClockBody {
        now: services.clock.now().0 + offset,
        offset,
    })
}

pub(crate) fn read_partner(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: PartnerRequest,
) -> Result<Reply, ApiError> {
    let partner = lab_partner(services, &request.partner)?;
    partner_body(services, &partner)
}

pub(crate) async fn shift_partner(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: MovePartnerClockRequest,
) -> Result<Reply, ApiError> {
    let partner = lab_partner(services, &request.partner)?;
    let offset = match request.change {
        MoveClockRequest::Now(now) => now.since(cx.now),
        MoveClockRequest::Offset(seconds) => seconds,
        MoveClockRequest::Advance(seconds) => services.lab.clock_offset(&partner) + seconds,
        MoveClockRequest::Pace(_) => {
            let why = "only the whole server's clock can be stopped or run at another pace";
            return Err(ApiError::field("scale", why));
        }
    };
    if offset.unsigned_abs() > MoveClockRequest::OFFSET_MAX.unsigned_abs() {
        return Err(ApiError::field("advance", "moves the clock too far"));
    }
    services.lab.set_clock_offset(partner, offset);
    partner_body(services, &partner)
}

pub(crate) async fn reset_partner(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: PartnerRequest,
) -> Result<Reply, ApiError> {
    let partner = lab_partner(services, &request.partner)?;
    services.lab.set_clock_offset(partner, 0);
    partner_body(services, &partner)
}

pub(crate) async fn accept(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
) -> Result<Reply, ApiError> {
    let guard = Arc::clone(&services.clock_guard);
    cold(services, move || guard.accept()).await?;
    body(services, Vec::new())
}
