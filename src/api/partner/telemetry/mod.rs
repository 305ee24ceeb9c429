//! The ingestion of telemetry.

pub mod events;

use http::StatusCode;

use crate::partner::license::trace_named;
use crate::partner::telemetry::events::{Batch, TakenBody};
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
            Ok::<_, ApiError>((TakenBody::new(taken, rejected), sent, whole))
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
