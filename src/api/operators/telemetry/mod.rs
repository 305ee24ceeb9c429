//! Handlers of telemetry: the export of events, quality reports and series.

pub(crate) mod answer;
pub(crate) mod export;
pub(crate) mod request;

use std::sync::Arc;

use crate::operators::asset_names::AssetNames;
use crate::operators::telemetry::answer::{
    QualityReportBody, QualityRow, QualitySeries, QualityView,
};
use crate::operators::telemetry::export::EventPieces;
use crate::operators::telemetry::request::{
    ExportTelemetryRequest, ReportTelemetryRequest, TelemetrySeriesRequest, TelemetryViewsRequest,
};
use playgate_http::response::body::ChunkStream;
use playgate_http::response::reply::media;
use playgate_http::{ApiError, Context, OperatorAuth, Reply};
use playgate_records::quality::{Dimension, QualityQuery, ViewsQuery};
use playgate_records::telemetry::Selection;
use playgate_services::Services;
use playgate_types::time::{DAY, HOUR};
use playgate_types::{AssetId, UnixSeconds};

crate::openapi::words::words! { QualityReportBody<QualityRow<'_>>, QualitySeries, QualityView => r##"
[operations.admin_export_telemetry]
summary = "Export telemetry events"
text = "One JSON object per line, in the order of receipt."
query.from = "Instant?: Returns events received at or after this time."
query.to = "Instant?: Returns events received before this time."
query.user = "UserId?: Returns only events of this user."
returns."200" = { text = "Lines of `ExportedEvent`.", media = ["application/x-ndjson"], of = "ExportedEvent", example = '''
{"userId": "q83vEjRWeJCrze8SNFZ4kA", "partnerId": "AAECAwQFBgcICQoLDA0ODw", "receivedTimestamp": 1767268801, "clockSkew": -1, "event": {"timestamp": 1767268800, "action": "playback_buffering", "seqId": 4, "context": {"asset_id": "news", "device_id": "tv-1", "duration": 800}}}
''' }

[operations.admin_report_telemetry]
summary = "Report playback quality"
text = "The figures of the views that began in a span of at most 400 days, by the definitions in `docs/quality.md`."
query.from = "Instant?: First minute. Default: 24 hours before `to`."
query.to = "Instant?: End, exclusive. Default: now."
query.by = "QualityDimensions?: Dimensions to group by; also `minute` or `hour`."
query.where = "QualityFilters?: Only views with these values, each as `dimension=value`. Of several values of one dimension any."
returns."200" = "QualityReport: The report."

[operations.admin_telemetry_series]
summary = "Report playback quality over time"
text = "The figures of a report, and the same for each step of time."
query.from = "Instant?: First minute. Default: 24 hours before `to`."
query.to = "Instant?: End, exclusive. Default: now."
query.step = "QualityStep?: Seconds of a point. Default: a step that gives about a hundred points."
query.by = "QualityDimensions?: Dimensions to group by."
query.where = "QualityFilters?: Only views with these values, each as `dimension=value`. Of several values of one dimension any."
returns."200" = "QualitySeries: The series."

[operations.admin_telemetry_views]
summary = "List single views"
text = "The views behind a figure, the newest first: those that have not been closed, which is an hour after their last sign of life. Older ones are in the figures only."
query.from = "Instant?: Only views that began at or after this time."
query.to = "Instant?: Only views that began before this time. Default: now."
query.where = "QualityFilters?: Only views with these values, each as `dimension=value`. Of several values of one dimension any."
query.outcome = "QualityOutcome?: Only views with this outcome."
query.limit = "PageSize?: Maximum number of views."
returns."200" = "[QualityView]: The views."
"## }

const MINUTE: i64 = 60;

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
    figures_reply(services, cx, request, |_| None).await
}

pub(crate) async fn series(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: TelemetrySeriesRequest,
) -> Result<Reply, ApiError> {
    let TelemetrySeriesRequest { report, step } = request;
    figures_reply(services, cx, report, move |length| {
        // Gives about a hundred points, which a chart can show.
        let fitting = [MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 6 * HOUR];
        let fitting = fitting.into_iter().find(|step| length / step <= 120);
        Some(step.or(fitting).unwrap_or(DAY))
    })
    .await
}

pub(crate) async fn views(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: TelemetryViewsRequest,
) -> Result<Reply, ApiError> {
    let query = ViewsQuery {
        from: request.from.unwrap_or_default(),
        to: request.to.unwrap_or(cx.now + 1),
        filters: request.filters,
        outcome: request.outcome,
        limit: request.limit,
    };
    let (quality, accounts) = (services.quality.clone(), services.accounts.clone());
    let (catalog, schedule) = (services.catalog.clone(), Arc::clone(&services.schedule));
    services
        .bulk
        .run(move |()| {
            let views = quality.views(&query)?;
            let bodies = views.iter().map(|view| {
                let user = view.user.and_then(|id| accounts.user(&id));
                let asset = AssetId::parse(view.labels.get(Dimension::Asset)).ok();
                let names = asset
                    .map(|asset| AssetNames::new((&catalog, &schedule), &asset, None, view.began));
                let email = user.map(|user| user.email.to_string());
                QualityView::new(view, email, names.unwrap_or_default())
            });
            Reply::json(&bodies.collect::<Vec<_>>())
        })?
        .await?
}

async fn figures_reply(
    services: &Services,
    cx: &Context,
    request: ReportTelemetryRequest,
    step: impl FnOnce(i64) -> Option<i64>,
) -> Result<Reply, ApiError> {
    const SPAN_MAX: i64 = 400 * DAY;
    let ReportTelemetryRequest {
        from,
        to,
        by,
        filters,
    } = request;
    // Rounded to whole minutes: a part of a minute would look like a drop.
    let to = to.unwrap_or(cx.now + 1);
    let to = UnixSeconds(to.0.saturating_add(MINUTE - 1).div_euclid(MINUTE) * MINUTE);
    let from = from.unwrap_or(to - DAY);
    let from = UnixSeconds(from.0.div_euclid(MINUTE) * MINUTE);
    let length = to.since(from);
    if !(0..=SPAN_MAX).contains(&length) {
        return Err(ApiError::field(
            "from",
            "must be at most 400 days before to",
        ));
    }
    let query = QualityQuery {
        from,
        to,
        by,
        filters,
        step: step(length),
    };
    let (quality, now) = (services.quality.clone(), cx.now);
    services
        .bulk
        .run(move |()| {
            let report = quality.report(&query, now)?;
            match query.step {
                Some(step) => Reply::json(&QualitySeries::new(&query, step, &report)),
                None => Reply::json(&QualityReportBody::new(&query, &report, QualityRow::new)),
            }
        })?
        .await?
}
