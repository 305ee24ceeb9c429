//! Handlers of the guide.

use http::StatusCode;

use crate::app::App;
use crate::domain::epg_sources::{EpgSources, Refresh};
use crate::domain::schedule::{ImportOptions, ImportReport, Outcome, ScheduleError};
use crate::http::auth::OperatorAuth;
use crate::http::blocking_body::{BodyReader, pipe};
use crate::http::context::Context;
use crate::http::endpoint::admin::content::ImportGuideRequest;
use crate::http::error::{ApiError, Details, ErrorCode};
use crate::http::offload::bulk;
use crate::http::reply::Reply;
use crate::http::wire::import_report::WireReport;

/// POST a guide. It is read as it arrives; what it changes is seen all at once.
///
/// # Errors
/// `INVALID_REQUEST` for a malformed parameter, `IMPORT_INVALID` for a guide that cannot be read,
/// `IMPORT_HELD` with the report for one that looks implausible.
pub async fn import_guide(
    app: &App,
    cx: &Context,
    _auth: OperatorAuth,
    request: ImportGuideRequest,
) -> Result<Reply, ApiError> {
    let (feed, body) = pipe();
    let source = request.source.unwrap_or_default();
    let how = request.how;
    let import = Import {
        feeds: app.feeds.clone(),
        options: app.feeds.options(&source, how, cx.now),
        how,
        source,
    };
    let (fed, done) = tokio::join!(feed.pass(request.file), bulk(app, move || import.run(body)));
    // What is wrong with the upload is the cause of whatever the import thinks of it.
    fed?;
    reported(&done?)
}

/// The answer to an import: its report, inside of the refusal if it is held.
///
/// # Errors
/// `IMPORT_HELD`.
pub fn reported(report: &ImportReport) -> Result<Reply, ApiError> {
    let body = WireReport::from(report);
    if report.outcome == Outcome::Held {
        let report = serde_json::to_value(&body).map_err(ApiError::internal)?;
        return Err(ApiError::new(
            ErrorCode::ImportHeld,
            "the guide looks implausible and was not taken; accept it to take it as it is",
        )
        .with_details(Details::Report(report)));
    }
    Reply::json_with(StatusCode::OK, &body)
}

/// An import, on its way to a thread that may block.
struct Import {
    feeds: EpgSources,
    how: Refresh,
    source: String,
    options: ImportOptions,
}

impl Import {
    fn run(self, body: BodyReader) -> Result<ImportReport, ApiError> {
        let draft = self.feeds.read(&self.source, body);
        let draft = draft.map_err(ScheduleError::Guide)?;
        let create = self.how.create_livestreams;
        let report = self.feeds.import(draft, &self.options, create)?;
        let recorded = self.feeds.record(&self.source, &report, self.options.now);
        if let Err(error) = recorded {
            // The guide is in place; the source's own next fetch says how it fares.
            tracing::warn!(source = self.source, %error, "failed to record the import of the source");
        }
        Ok(report)
    }
}
