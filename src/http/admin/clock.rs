//! Handlers of the clock: whether it is believed, and the clock of a lab.

use std::sync::Arc;

use serde::Serialize;

use crate::app::App;
use crate::http::auth::OperatorAuth;
use crate::http::context::Context;
use crate::http::endpoint::admin::system::MoveClockRequest;
use crate::http::error::{ApiError, ErrorCode};
use crate::http::offload::cold;
use crate::http::reply::Reply;
use crate::ports::LabClock;

#[derive(Serialize)]
struct ClockBody {
    now: i64,
    offset: i64,
    movable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    jump: Option<i64>,
}

fn body(app: &App) -> Result<Reply, ApiError> {
    Reply::json(&ClockBody {
        now: app.clock.now().0,
        offset: app.lab.as_ref().map_or(0, |lab| lab.offset()),
        movable: app.lab.is_some(),
        jump: app.clock_guard.doubt().map(|doubt| doubt.seconds()),
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
pub async fn shift(
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
    moved(app).await
}

/// DELETE: back to real time.
///
/// # Errors
/// `LAB_CLOCK_OFF`.
pub async fn reset(app: &App, _cx: &Context, _auth: OperatorAuth) -> Result<Reply, ApiError> {
    lab(app)?.set_offset(0);
    moved(app).await
}

/// Has a move take effect for expiry before it is answered.
async fn moved(app: &App) -> Result<Reply, ApiError> {
    let guard = Arc::clone(&app.clock_guard);
    cold(app, move || {
        // A doubt about the clock below is shown with the clock.
        let _ = guard.check();
        Ok::<_, ApiError>(())
    })
    .await?;
    body(app)
}

/// POST: believes the clock as it runs, without waiting for it to agree with itself.
///
/// # Errors
/// `OVERLOADED`.
pub async fn accept(app: &App, _cx: &Context, _auth: OperatorAuth) -> Result<Reply, ApiError> {
    let guard = Arc::clone(&app.clock_guard);
    cold(app, move || {
        guard.accept();
        Ok::<_, ApiError>(())
    })
    .await?;
    body(app)
}
