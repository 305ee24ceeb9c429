//! Handlers of EPG sources and EPG imports.

pub(crate) mod answer;
pub(crate) mod import_report;
pub(crate) mod request;

use http::StatusCode;

use crate::operators::epg_sources::answer::WireSource;
use crate::operators::epg_sources::import_report::WireReport;
use crate::operators::epg_sources::request::{
    ImportGuideRequest, RefreshSourceRequest, SourceRequest,
};
use playgate_domain::epg_sources::{EpgSources, Refresh};
use playgate_domain::schedule::{ImportOptions, ImportOutcome, ImportReport, ScheduleError};
use playgate_http::access::auth::OperatorAuth;
use playgate_http::errors::api_error::{ApiError, Details, ErrorCode};
use playgate_http::offload::bulk;
use playgate_http::request::blocking_body::{BodyReader, pipe};
use playgate_http::request::context::Context;
use playgate_http::response::reply::Reply;
use playgate_services::Services;

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
