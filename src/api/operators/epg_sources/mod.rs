//! EPG sources and EPG imports.

pub(crate) mod import_report;

use std::collections::BTreeMap;

use http::StatusCode;
use serde::Serialize;

use crate::operators::epg_sources::import_report::WireReport;
use playgate_domain::epg_sources::{EpgSourceView, EpgSources, HoldReason, LastImport, Refresh};
use playgate_domain::schedule::import::parsed_guide::ChannelTarget;
use playgate_domain::schedule::{ImportOptions, ImportOutcome, ImportReport, ScheduleError};
use playgate_http::errors::api_error::{Details, ErrorCode};
use playgate_http::offload::bulk;
use playgate_http::request::blocking_body::{BodyReader, pipe};
use playgate_http::{
    ApiError, BodyStream, CombineResults, Context, Input, OperatorAuth, ParseRequest, Payload,
    Reply,
};
use playgate_ports::http_client::without_query;
use playgate_services::Services;
use playgate_types::Malformed;

pub(crate) struct ImportGuideRequest {
    pub source: Option<String>,
    pub how: Refresh,
    pub file: BodyStream,
}

impl ParseRequest for ImportGuideRequest {
    fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let source = input.query.parsed("source", |name| match name.len() {
            1..=128 => Ok(name.to_owned()),
            _ => Err(Malformed("must have 1 to 128 characters")),
        });
        let (source, how) = (source, refresh_options(input)).combine()?;
        Ok(Self {
            source,
            how,
            file: payload.streamed()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceRequest {
    pub source: String,
}

impl ParseRequest for SourceRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            source: input.text("source")?.into_owned(),
        })
    }
}

#[derive(Clone, Debug)]
pub(crate) struct RefreshSourceRequest {
    pub source: String,
    pub how: Refresh,
}

impl ParseRequest for RefreshSourceRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let (source, how) = (input.text("source"), refresh_options(input)).combine()?;
        Ok(Self {
            source: source.into_owned(),
            how,
        })
    }
}

fn refresh_options(input: &Input<'_>) -> Result<Refresh, ApiError> {
    let (dry_run, accept, create_livestreams) = (
        input.query.flag("dryRun"),
        input.query.flag("accept"),
        input.query.flag("createLivestreams"),
    )
        .combine()?;
    Ok(Refresh {
        dry_run,
        accept,
        create_livestreams,
    })
}

pub(crate) fn sources(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
) -> Result<Reply, ApiError> {
    let sources: Vec<_> = services
        .epg_sources
        .list()
        .into_iter()
        .map(WireSource::from)
        .collect();
    Reply::json(&sources)
}

pub(crate) fn source(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: SourceRequest,
) -> Result<Reply, ApiError> {
    let view = services.epg_sources.show(&request.source)?;
    Reply::json(&WireSource::from(view))
}

pub(crate) async fn refresh(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: RefreshSourceRequest,
) -> Result<Reply, ApiError> {
    let (sources, now) = (services.epg_sources.clone(), cx.now);
    let report = bulk(services, move || {
        sources.refresh(&request.source, request.how, now)
    });
    reported(&report.await?)
}

pub(crate) async fn import_guide(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: ImportGuideRequest,
) -> Result<Reply, ApiError> {
    let (upload, body) = pipe();
    let source = request.source.unwrap_or_default();
    let how = request.how;
    let import = GuideUpload {
        epg_sources: services.epg_sources.clone(),
        options: services.epg_sources.options(&source, how, cx.now),
        how,
        source,
    };
    // Both run concurrently: the channel is bounded, so parsing must take chunks while the body arrives.
    let (uploaded, done) = tokio::join!(
        upload.pass(request.file),
        bulk(services, move || import.run(body))
    );
    // A failed upload also makes the import fail; report the upload's error, which is the cause.
    uploaded?;
    reported(&done?)
}

/// Turns an import report into a response.
///
/// # Errors
/// `IMPORT_HELD`, with the report in `details`, if the import was held.
fn reported(report: &ImportReport) -> Result<Reply, ApiError> {
    let body = WireReport::from(report);
    if report.outcome == ImportOutcome::Held {
        let report = serde_json::to_value(&body).map_err(ApiError::internal)?;
        return Err(ApiError::new(
            ErrorCode::ImportHeld,
            "the guide looks implausible and was not imported; repeat with `accept` to import it anyway",
        )
        .with_details(Details::Report(report)));
    }
    Reply::json_with(StatusCode::OK, &body)
}

struct GuideUpload {
    epg_sources: EpgSources,
    how: Refresh,
    source: String,
    options: ImportOptions,
}

impl GuideUpload {
    fn run(self, body: BodyReader) -> Result<ImportReport, ApiError> {
        let draft = self.epg_sources.read(&self.source, body);
        let draft = draft.map_err(ScheduleError::Guide)?;
        let create = self.how.create_livestreams;
        let report = self.epg_sources.import(draft, &self.options, create)?;
        let recorded = self
            .epg_sources
            .record(&self.source, &report, self.options.now);
        if let Err(error) = recorded {
            // Not an error for the client: the import is committed, and the next fetch of the
            // source updates its state.
            tracing::warn!(source = self.source, %error, "failed to record the import of the EPG source");
        }
        Ok(report)
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WireSource {
    name: String,
    url: String,
    interval: i64,
    priority: u32,
    zone: &'static str,
    ignore_offsets: bool,
    languages: Vec<String>,
    mapped: usize,
    channels: BTreeMap<String, WireTarget>,
    state: &'static str,
    last_attempt: Option<i64>,
    last_success: Option<i64>,
    next: Option<i64>,
    failures: u32,
    error: Option<String>,
    last_import: Option<WireLastImport>,
}

/// A livestream id; a list of them or a table with a shift if the configuration has one.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum WireTarget {
    One(String),
    Several(Vec<String>),
    Shifted {
        livestreams: Vec<String>,
        shift: i64,
    },
}

impl From<ChannelTarget> for WireTarget {
    fn from(ChannelTarget { livestreams, shift }: ChannelTarget) -> Self {
        match <[String; 1]>::try_from(livestreams) {
            Ok([one]) if shift == 0 => Self::One(one),
            Ok(one) => Self::Shifted {
                livestreams: one.into(),
                shift,
            },
            Err(several) if shift == 0 => Self::Several(several),
            Err(livestreams) => Self::Shifted { livestreams, shift },
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct WireLastImport {
    at: i64,
    channels: u64,
    programmes: u64,
    added: u64,
    changed: u64,
    removed: u64,
    unchanged: u64,
    skipped: u64,
    unmapped: u64,
    unmapped_ids: Vec<String>,
    new_channels: u64,
    new_channel_ids: Vec<String>,
    doubts: Vec<String>,
}

impl From<EpgSourceView> for WireSource {
    fn from(EpgSourceView { source, state }: EpgSourceView) -> Self {
        let held = |last: &LastImport| last.standstill == HoldReason::Held;
        Self {
            name: source.name,
            // The query may contain the customer's key at the publisher.
            url: without_query(&source.location),
            interval: source.interval,
            priority: source.priority,
            zone: source.options.zone.name(),
            ignore_offsets: source.options.ignore_offsets,
            languages: source.options.languages,
            mapped: source.options.channels.len(),
            channels: (source.options.channels.into_iter())
                .map(|(id, target)| (id, target.into()))
                .collect(),
            state: if state.failures > 0 {
                "failing"
            } else if state.last.as_ref().is_some_and(held) {
                "held"
            } else if state.succeeded.is_some() {
                "ok"
            } else {
                "new"
            },
            last_attempt: state.attempted.map(|at| at.0),
            last_success: state.succeeded.map(|at| at.0),
            next: state.attempted.map(|_| state.due.0),
            failures: state.failures,
            error: state.error,
            last_import: state.last.map(WireLastImport::from),
        }
    }
}

impl From<LastImport> for WireLastImport {
    fn from(last: LastImport) -> Self {
        Self {
            at: last.at.0,
            channels: last.channels,
            programmes: last.programmes,
            added: last.added,
            changed: last.changed,
            removed: last.removed,
            unchanged: last.unchanged,
            skipped: last.skipped,
            unmapped: last.unmapped,
            unmapped_ids: last.unmapped_ids,
            new_channels: last.new,
            new_channel_ids: last.new_ids,
            doubts: last.issues,
        }
    }
}
