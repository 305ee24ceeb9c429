//! The ingestion of telemetry.

pub mod events;

use http::StatusCode;

use crate::partner::license::trace_named;
use crate::partner::telemetry::events::{Batch, TelemetryResult};
use playgate_domain::playback::PlaybackError;
use playgate_formats::cmcd::{CmcdBatch, ReportedSession};
use playgate_http::request::body::SentBody;
use playgate_http::{
    Anyone, ApiError, Context, ErrorCode, Input, ParseRequest, Payload, Reply, UserAuth,
};
use playgate_process::Turn;
use playgate_records::telemetry::Sender;
use playgate_services::Services;
use playgate_types::device_text::mended_text;

crate::openapi::words::words! { events::ExportedEvent, events::TelemetryResult => r##"
[operations.telemetry]
summary = "Report telemetry events"
text = '''
An invalid event does not affect the rest of the batch; it is listed in `rejected`. A batch may have 500 events; each further one is rejected with `TOO_MANY_EVENTS`. An event may have 64 KiB. A batch over 1 MiB after decompression is 413: split it in half and retry.

Daily byte budgets apply to each user, optionally to each partner, and to all events together. Above a budget the response is 429 with `Retry-After`.

How a player should react: 2xx, discard the batch; 429 and 5xx, keep it and retry; 413, split it in half; any other 4xx, drop it.'''
send = { text = "The events. `Content-Encoding: gzip` is supported.", type = "TelemetryBatch" }
returns."202" = "TelemetryResult: Result of the batch."

[operations.cmcd]
summary = "Report playback by CMCD"
text = '''
Takes CMCD version 2 in event mode (CTA-5004-B), one report a line, as Shaka Player and dash.js send it. The address comes from the preflight (`cmcd.url`). It is signed and bound to the session, so that no header is needed, and a page that closes may use `sendBeacon`.

Unknown keys and values over 256 bytes are ignored. A line that cannot be read is skipped, and so are the reports after the first 500 of a body and after 100 lines that cannot be read; a session has five reports a second, with a burst of 60; a body without a readable line is 400. Reports are stored as telemetry events with the actions `cmcd_ps`, `cmcd_bc` and so on, and count for the quality figures. Duplicates count once.

How a player should react: 410, stop reporting to this address; 429 and 5xx, keep the reports and retry.'''
send = { text = "Reports, one a line.", media = ["application/cmcd", "text/plain"], example = '''
br=(2400;v 128;a),e=ps,sid="6e2fb550",sn=3,sta=p,ts=1767268800123,v=2
''' }
returns."204" = { text = "The reports are stored." }
errors = ["SESSION_ENDED", "RATE_LIMITED"]
"## }

/// The body is not parsed here: events are parsed one by one, so that a malformed event does not reject its
/// batch.
pub(crate) struct TelemetryRequest {
    pub body: SentBody,
}

/// Reports of a player about the session that the token names.
pub(crate) struct CmcdRequest {
    pub token: String,
    pub body: SentBody,
}

impl ParseRequest for CmcdRequest {
    fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            token: input.text("token")?.into_owned(),
            body: payload.sent()?,
        })
    }
}

impl ParseRequest for TelemetryRequest {
    fn parse(_input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            body: payload.sent()?,
        })
    }
}

pub(crate) async fn telemetry(
    services: &Services,
    cx: &Context,
    auth: UserAuth,
    request: TelemetryRequest,
) -> Result<Reply, ApiError> {
    let telemetry = services.telemetry.clone();
    // All partners share the hour of the log, the budgets' day and the dedup window, so no partner may move them.
    let now = cx.server_now;
    let sender = Sender {
        user: auth.user(),
        partner: auth.partner(),
    };
    let turn = Turn::for_client(Some(sender.partner), cx.peer);
    // In a pool: unpacking and parsing a megabyte of JSON takes milliseconds, a write to a slow disk longer.
    let (body, sent, whole) = services
        .cold
        .run_for(turn, move |()| {
            let body = request.body.unpack()?;
            let body = mended_text(&body);
            let Batch { events, rejected } = Batch::read(&body)?;
            let (sent, whole) = (events.len() + rejected.len(), rejected.is_empty());
            // Rejected events are counted before the others are stored, so that a failure there does not lose the
            // count.
            telemetry.count_rejected(rejected.len());
            let taken = telemetry.ingest(sender, events, now)?;
            Ok::<_, ApiError>((TelemetryResult::new(taken, rejected), sent, whole))
        })?
        .await??;
    // The conformance report reads the size of batches from this step.
    cx.trace.step("events", whole, || sent.to_string());
    Reply::json_with(StatusCode::ACCEPTED, &body)
}

/// The address names and authorizes the session, so that players need no headers.
pub(crate) async fn cmcd(
    services: &Services,
    cx: &Context,
    _anyone: Anyone,
    request: CmcdRequest,
) -> Result<Reply, ApiError> {
    let (session, ended) = match services.playback.reported_session(&request.token, cx.now) {
        Ok(session) => (session, None),
        // What a player says after the end of its session is counted. 410 makes it stop reporting to this address.
        Err(error) => match services
            .playback
            .session_left(&request.token, &error, cx.now)
        {
            Some(session) => (session, Some(ended(error))),
            None => return Err(ended(error)),
        },
    };
    trace_named(cx, &session);
    if !session.admits_report(cx.now) {
        // A player of an ended session stops.
        return Err(ended.unwrap_or_else(too_many_reports));
    }
    let (telemetry, now) = (services.telemetry.clone(), cx.now);
    let turn = Turn::for_client(Some(session.start.partner), cx.peer);
    services
        .cold
        .run_for(turn, move |()| {
            let body = request.body.unpack()?;
            let reported = ReportedSession {
                id: session.id,
                device: &session.start.device.id,
                asset: &session.start.asset,
            };
            let batch = CmcdBatch::parse(&body, reported, now.0.saturating_mul(1_000));
            let sender = Sender {
                user: session.user,
                partner: session.start.partner,
            };
            telemetry.count_rejected(batch.rejected);
            // A player that sends only malformed lines would otherwise never notice.
            if batch.events.is_empty() && batch.rejected > 0 {
                return Err(ApiError::field("body", "has no line of CMCD in event mode"));
            }
            let stored = telemetry.ingest(sender, batch.events, now);
            match ended {
                Some(ended) => Err(ended),
                None => stored.map(|_| Reply::no_content()).map_err(Into::into),
            }
        })?
        .await?
}

fn too_many_reports() -> ApiError {
    let message = "too many reports of this session; send several lines in one body";
    ApiError::new(ErrorCode::RateLimited, message)
}

fn ended(error: PlaybackError) -> ApiError {
    match error {
        PlaybackError::SessionEnded(_) => error.into(),
        _ => ApiError::new(
            ErrorCode::SessionEnded,
            "the session has ended, or the address was altered",
        ),
    }
}
