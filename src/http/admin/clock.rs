//! Handlers of the clock of a lab.

use serde::Serialize;

use crate::app::App;
use crate::http::auth::OperatorAuth;
use crate::http::context::Context;
use crate::http::endpoint::admin::system::MoveClockRequest;
use crate::http::error::{ApiError, ErrorCode};
use crate::http::reply::Reply;
use crate::ports::LabClock;

#[derive(Serialize)]
struct ClockBody {
    now: i64,
    offset: i64,
    movable: bool,
}

fn body(app: &App) -> Result<Reply, ApiError> {
    Reply::json(&ClockBody {
        now: app.clock.now().0,
        offset: app.lab.as_ref().map_or(0, |lab| lab.offset()),
        movable: app.lab.is_some(),
    })
}

fn lab(app: &App) -> Result<&LabClock, ApiError> {
    app.lab.as_deref().ok_or_else(|| {
        ApiError::new(
            ErrorCode::LabClockOff,
            "the clock can be moved where `lab.clock` is on",
        )
    })
}

/// GET: the time as the service sees it.
///
/// # Errors
/// `INTERNAL`.
pub fn read(app: &App, _cx: &Context, _auth: OperatorAuth) -> Result<Reply, ApiError> {
    body(app)
}

/// PUT: moves it.
///
/// # Errors
/// `LAB_CLOCK_OFF`.
pub fn shift(
    app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    request: MoveClockRequest,
) -> Result<Reply, ApiError> {
    let lab = lab(app)?;
    match request {
        MoveClockRequest::Now(now) => lab.set_now(now),
        MoveClockRequest::Offset(seconds) => lab.set_offset(seconds),
    }
    tracing::warn!(offset = lab.offset(), "the clock was moved");
    body(app)
}

/// DELETE: back to real time.
///
/// # Errors
/// `LAB_CLOCK_OFF`.
pub fn reset(app: &App, _cx: &Context, _auth: OperatorAuth) -> Result<Reply, ApiError> {
    lab(app)?.set_offset(0);
    body(app)
}
