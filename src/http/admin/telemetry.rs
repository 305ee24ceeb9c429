//! Handlers of what players reported: the export and the figures of quality.

use std::pin::Pin;
use std::task::{Context as TaskContext, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::task::JoinHandle;

use crate::app::App;
use crate::domain::telemetry::{Events, Selection};
use crate::http::auth::OperatorAuth;
use crate::http::context::Context;
use crate::http::endpoint::admin::telemetry::{ExportTelemetryRequest, ReportTelemetryRequest};
use crate::http::error::ApiError;
use crate::http::reply::{Reply, media};
use crate::http::stream::BodyError;
use crate::http::wire::telemetry::{QualityBody, facts, write_line};
use crate::types::UnixSeconds;
use crate::types::time::DAY;

/// Bytes of an export that are made at once.
const CHUNK: usize = 64 * 1024;

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
    let body = ExportBody {
        events: Some(events),
        making: None,
    };
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
    let telemetry = app.telemetry.clone();
    let report = app
        .bulk
        .run(move |()| telemetry.report(from, to, &facts))?
        .await??;
    Reply::json(&QualityBody::from(&report))
}

type Made = (Events, Result<Bytes, BodyError>);

/// An export as it is sent. Each chunk is made on the pool of blocking threads when the client has
/// taken the one before, so that a slow client holds no thread and no memory.
struct ExportBody {
    /// Nothing while a chunk is made, and at the end.
    events: Option<Events>,
    making: Option<JoinHandle<Made>>,
}

fn chunk(mut events: Events) -> Made {
    let mut out = Vec::with_capacity(CHUNK + CHUNK / 8);
    while out.len() < CHUNK {
        match events.next() {
            None => break,
            Some(Err(error)) => return (events, Err(error.into())),
            Some(Ok(event)) => {
                if let Err(error) = write_line(&event, &mut out) {
                    return (events, Err(error.into()));
                }
            }
        }
    }
    (events, Ok(out.into()))
}

impl Body for ExportBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        if let Some(events) = this.events.take() {
            this.making = Some(tokio::task::spawn_blocking(move || chunk(events)));
        }
        let Some(making) = &mut this.making else {
            return Poll::Ready(None);
        };
        let made = ready!(Pin::new(making).poll(cx));
        this.making = None;
        let (events, bytes) = made?;
        let bytes = bytes?;
        if bytes.is_empty() {
            return Poll::Ready(None);
        }
        this.events = Some(events);
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }
}
