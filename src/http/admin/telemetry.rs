//! Handlers of what players reported: the export and the figures of quality.

use crate::app::App;
use crate::domain::telemetry::Selection;
use crate::http::auth::OperatorAuth;
use crate::http::context::Context;
use crate::http::endpoint::admin::telemetry::{ExportTelemetryRequest, ReportTelemetryRequest};
use crate::http::error::ApiError;
use crate::http::reply::{Reply, media};
use crate::http::response_body::ChunkStream;
use crate::http::wire::telemetry::{QualityBody, facts};
use crate::http::wire::telemetry_export::EventPieces;
use crate::types::time::DAY;
use crate::types::{PartnerId, UnixSeconds};

/// GET telemetry/events: the events of a selection as NDJSON, in the order in which they came.
///
/// # Errors
/// `OVERLOADED`, `INTERNAL`.
pub async fn export(
    app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    request: ExportTelemetryRequest,
) -> Result<Reply, ApiError> {
    let telemetry = app.telemetry.clone();
    let ExportTelemetryRequest { from, to, user } = request;
    let selection = Selection { from, to, user };
    let events = app
        .cold
        .run(move |()| telemetry.events(selection))?
        .await??;
    let body = ChunkStream::new(EventPieces::lines(events));
    Ok(Reply::stream(media::NDJSON, None, Box::pin(body)))
}

/// GET telemetry/report: the figures by minute and asset.
///
/// # Errors
/// `INVALID_REQUEST`, `OVERLOADED`, `INTERNAL`.
pub async fn report(
    app: &App,
    cx: &Context,
    _auth: OperatorAuth,
    request: ReportTelemetryRequest,
) -> Result<Reply, ApiError> {
    /// A report reads every event of its time.
    const LONGEST: i64 = 31 * DAY;
    let to = request.to.unwrap_or(cx.now + 1);
    let from = request.from.unwrap_or(to - DAY);
    if !(0..=LONGEST).contains(&to.since(from)) {
        return Err(ApiError::field("from", "must be at most 31 days before to"));
    }
    let from = UnixSeconds(from.0.div_euclid(60) * 60);
    let (telemetry, partners) = (app.telemetry.clone(), app.partners.clone());
    let unit_of = move |partner: &PartnerId| partners.duration_unit(partner);
    let report = app
        .bulk
        .run(move |()| telemetry.report(from, to, &facts, &unit_of))?
        .await??;
    Reply::json(&QualityBody::from(&report))
}
