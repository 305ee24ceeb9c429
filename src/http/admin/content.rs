//! Handlers of the guide.

use std::sync::Arc;

use http::StatusCode;

use crate::app::App;
use crate::domain::catalog::{Catalog, CatalogImport, Livestream, Mode, NAME_MAX, Placed};
use crate::domain::feeds::{Feeds, Refresh};
use crate::domain::schedule::model::FILENAME_MAX;
use crate::domain::schedule::{
    Image, ImportOptions, ImportReport, MakeLivestreams, Outcome, Schedule, ScheduleError, Unmapped,
};
use crate::http::auth::OperatorAuth;
use crate::http::context::Context;
use crate::http::endpoint::admin::content::ImportGuideRequest;
use crate::http::error::{ApiError, Details, ErrorCode};
use crate::http::pipe::{BodyReader, pipe};
use crate::http::reply::Reply;
use crate::http::run::bulk;
use crate::http::wire::report::WireReport;
use crate::types::BroadcastId;

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
    let how = Refresh {
        dry_run: request.dry_run,
        accept: request.accept,
    };
    let import = Import {
        schedule: Arc::clone(&app.schedule),
        feeds: app.feeds.clone(),
        make: request
            .create_livestreams
            .then(|| Make(app.catalog.clone(), Arc::clone(&app.schedule))),
        options: app.feeds.options(&source, how, cx.now),
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
    schedule: Arc<Schedule>,
    feeds: Feeds,
    make: Option<Make>,
    source: String,
    options: ImportOptions,
}

impl Import {
    fn run(self, body: BodyReader) -> Result<ImportReport, ApiError> {
        let draft = self.feeds.read(&self.source, body);
        let draft = draft.map_err(ScheduleError::Guide)?;
        match &self.make {
            Some(make) => self.schedule.import_making(draft, &self.options, make),
            None => Ok(self.schedule.import(draft, &self.options)?),
        }
    }
}

/// Makes livestreams in the catalogue.
struct Make(Catalog, Arc<Schedule>);

impl MakeLivestreams for Make {
    type Error = ApiError;

    fn make(&self, channels: &[Unmapped]) -> Result<(), ApiError> {
        let Self(catalog, schedule) = self;
        let import = CatalogImport {
            livestreams: channels
                .iter()
                .map(|channel| Placed {
                    line: 0,
                    item: livestream(channel),
                })
                .collect(),
            ..CatalogImport::default()
        };
        let is_broadcast = |id: &str| {
            BroadcastId::parse(id).is_ok_and(|id| schedule.snapshot().program(&id).is_some())
        };
        catalog.import(import, Mode::Merge, false, &is_broadcast)?;
        Ok(())
    }
}

/// The livestream of a channel that a guide names.
fn livestream(channel: &Unmapped) -> Livestream {
    let name = channel.name.as_deref().unwrap_or(channel.id.as_str());
    let end = name.floor_char_boundary(NAME_MAX);
    let name = name.get(..end).unwrap_or_default().to_owned();
    let mut livestream = Livestream::new(channel.id.clone(), name);
    let icon = channel
        .icon
        .as_deref()
        .filter(|icon| icon.len() <= FILENAME_MAX);
    livestream.images.extend(icon.map(|icon| Image {
        kind: Image::kind_of(None).into(),
        default: true,
        filename: icon.into(),
        embedded_text: false,
    }));
    livestream
}
