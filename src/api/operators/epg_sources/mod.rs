//! EPG sources and EPG imports.

pub(crate) mod import_report;

use std::collections::BTreeMap;

use http::StatusCode;
use serde::Serialize;

use crate::operators::epg_sources::import_report::GuideReport;
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
use playgate_types::{Described, JsonType, Malformed, UnixSeconds};

crate::openapi::words::words! { import_report::GuideReport, EpgSourceBody => r##"
[operations.admin_import_guide]
summary = "Import a guide"
text = '''
Accepts XMLTV, or JSON in the format of the schedule's day route; plain, gzip or xz. The format is detected from the content. The guide replaces the period that it covers on each livestream, in one atomic switch. A guide that looks implausible is held: 409 `IMPORT_HELD` with the report in `details`.'''
query.source = "string?: Name of the EPG source whose settings and report are used; 1 to 128 characters."
query.dryRun = "Flag?: Reports the changes and makes none."
query.accept = "Flag?: Imports the guide even if it looks implausible."
query.createLivestreams = "Flag?: Creates livestreams that are not in the catalogue."
send = { text = "The guide.", media = ["application/octet-stream"], example = '''
{"news": [{"id": "evening-news", "title": "Evening news", "start": 1767268800, "stop": 1767270600}]}
''' }
returns."200" = "GuideReport: The changes, made or planned."
errors = ["IMPORT_INVALID", "IMPORT_HELD"]

[operations.admin_epg_sources]
summary = "List EPG sources"
text = "In the order of the configuration."
returns."200" = "[EpgSource]: The EPG sources."

[operations.admin_epg_source]
summary = "Show an EPG source"
returns."200" = "EpgSource: The EPG source."
errors = ["EPG_SOURCE_NOT_FOUND"]

[operations.admin_refresh_source]
summary = "Fetch an EPG source now"
text = "Fetches and imports the guide even if it has not changed."
query.dryRun = "Flag?: Reports the changes and makes none."
query.accept = "Flag?: Imports the guide even if it looks implausible."
query.createLivestreams = "Flag?: Creates livestreams that are not in the catalogue. The configuration of the EPG source can make this the default."
returns."200" = "GuideReport: The changes, made or planned."
errors = ["EPG_SOURCE_NOT_FOUND", "EPG_SOURCE_FAILED", "IMPORT_INVALID", "IMPORT_HELD"]
"## }

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
        .map(EpgSourceBody::from)
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
    Reply::json(&EpgSourceBody::from(view))
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
    let body = GuideReport::from(report);
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

#[derive(Debug, Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EpgSourceBody {
    /// Name of the EPG source in the configuration.
    name: String,
    /// Address, without its query, which may contain keys.
    url: String,
    /// Time between two fetches, in seconds.
    interval: i64,
    /// Priority. Where two EPG sources cover the same livestream, the higher one is used.
    priority: u32,
    /// Time zone of times that name none.
    zone: &'static str,
    /// Whether the UTC offsets in the guide are ignored and all times are local in `zone`.
    ignore_offsets: bool,
    /// Preferred languages of titles and descriptions, best first.
    languages: Vec<String>,
    /// Number of channels that the configuration maps to another livestream id.
    mapped: usize,
    /// These livestreams, by the channel id in the guide, as the key `channels` of the source has them: an id, a list, or
    /// `livestreams` and `shift` in seconds.
    #[described(JsonType::Map(&JsonType::Any))]
    channels: BTreeMap<String, WireTarget>,
    /// State. `new`: not fetched yet. `ok`: last fetch succeeded. `held`: last guide awaits approval. `failing`: last fetch
    /// failed.
    #[described(JsonType::OneOf(&["new", "ok", "held", "failing"]))]
    state: &'static str,
    /// Time of the last fetch. `null` if there was none.
    last_attempt: Option<UnixSeconds>,
    /// Time of the last fetch whose guide was taken or had not changed. `null` if there was none.
    last_success: Option<UnixSeconds>,
    /// Time of the next fetch. `null` if none is planned.
    next: Option<UnixSeconds>,
    /// Number of failed fetches since the last one that succeeded.
    failures: u32,
    /// Error of the last fetch. `null` if it succeeded.
    error: Option<String>,
    /// Summary of the last guide. `null` if there was none.
    last_import: Option<LastImportBody>,
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

#[derive(Debug, Described, Serialize)]
#[serde(rename_all = "camelCase")]
struct LastImportBody {
    /// Time of the import.
    at: UnixSeconds,
    /// Number of channels in the guide.
    channels: u64,
    /// Number of programmes in the guide.
    programmes: u64,
    /// Number of added broadcasts.
    added: u64,
    /// Number of changed broadcasts.
    changed: u64,
    /// Number of removed broadcasts.
    removed: u64,
    /// Number of unchanged broadcasts.
    unchanged: u64,
    /// Number of rows that were not imported.
    skipped: u64,
    /// Number of channels that are not in the catalogue.
    unmapped: u64,
    /// Ids of the first of the channels that `unmapped` counts.
    unmapped_ids: Vec<String>,
    /// Number of channels that the previous guide did not contain.
    new_channels: u64,
    /// Ids of the first of the channels that `newChannels` counts.
    new_channel_ids: Vec<String>,
    /// Reasons why the guide looked implausible.
    doubts: Vec<String>,
}

impl From<EpgSourceView> for EpgSourceBody {
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
            last_attempt: state.attempted,
            last_success: state.succeeded,
            next: state.attempted.map(|_| state.due),
            failures: state.failures,
            error: state.error,
            last_import: state.last.map(LastImportBody::from),
        }
    }
}

impl From<LastImport> for LastImportBody {
    fn from(last: LastImport) -> Self {
        Self {
            at: last.at,
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
