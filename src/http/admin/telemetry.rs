//! Handlers of telemetry: the export of events and the quality report.

use crate::domain::telemetry::Selection;
use crate::http::access::auth::OperatorAuth;
use crate::http::errors::api_error::ApiError;
use crate::http::request::context::Context;
use crate::http::response::body::ChunkStream;
use crate::http::response::reply::{Reply, media};
use crate::http::routing::endpoint::admin::telemetry::{
    ExportTelemetryRequest, ReportTelemetryRequest,
};
use crate::http::wire::telemetry::{QualityBody, facts};
use crate::http::wire::telemetry_export::EventPieces;
use crate::services::Services;
use crate::types::time::DAY;
use crate::types::{PartnerId, UnixSeconds};

pub(crate) async fn export(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: ExportTelemetryRequest,
) -> Result<Reply, ApiError> {
    let telemetry = services.telemetry.clone();
    let ExportTelemetryRequest { from, to, user } = request;
    let selection = Selection { from, to, user };
    let events = services
        .cold
        .run(move |()| telemetry.events(selection))?
        .await??;
    let body = ChunkStream::new(EventPieces::lines(events));
    Ok(Reply::stream(media::NDJSON, None, Box::pin(body)))
}

pub(crate) async fn report(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: ReportTelemetryRequest,
) -> Result<Reply, ApiError> {
    // A report reads every event of its period.
    const LONGEST: i64 = 31 * DAY;
    let to = request.to.unwrap_or(cx.now + 1);
    let from = request.from.unwrap_or(to - DAY);
    if !(0..=LONGEST).contains(&to.since(from)) {
        return Err(ApiError::field("from", "must be at most 31 days before to"));
    }
    // Whole minutes: the first row would otherwise cover a part of one and look like a drop.
    let from = UnixSeconds(from.0.div_euclid(60) * 60);
    let (telemetry, partners) = (services.telemetry.clone(), services.partners.clone());
    let unit_of = move |partner: &PartnerId| partners.duration_unit(partner);
    let report = services
        .bulk
        .run(move |()| telemetry.report(from, to, &facts, &unit_of))?
        .await??;
    Reply::json(&QualityBody::from(&report))
}
