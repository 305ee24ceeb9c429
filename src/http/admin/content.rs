//! Handlers of the guide.

use std::sync::Arc;

use http::StatusCode;

use crate::app::App;
use crate::config::GuideSource;
use crate::domain::catalog::{Catalog, CatalogImport, Livestream, Mode, NAME_MAX, Placed};
use crate::domain::schedule::import::GuideError;
use crate::domain::schedule::import::draft::Draft;
use crate::domain::schedule::import::reader::unpack;
use crate::domain::schedule::import::xmltv::XmltvOptions;
use crate::domain::schedule::model::FILENAME_MAX;
use crate::domain::schedule::ratings::Ratings;
use crate::domain::schedule::{
    Image, ImportOptions, MakeLivestreams, Outcome, Schedule, ScheduleError, Unmapped,
};
use crate::http::auth::OperatorAuth;
use crate::http::context::Context;
use crate::http::endpoint::admin::content::ImportGuideRequest;
use crate::http::error::{ApiError, Details, ErrorCode};
use crate::http::pipe::{BodyReader, pipe};
use crate::http::reply::Reply;
use crate::http::run::bulk;
use crate::http::wire::guide;
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
    // A name without settings is a plain label: the guide is read with the defaults.
    let source = request
        .source
        .as_ref()
        .and_then(|name| app.config.epg.sources.iter().find(|s| s.name == *name));
    let (feed, body) = pipe();
    let import = Import {
        schedule: Arc::clone(&app.schedule),
        make: request
            .create_livestreams
            .then(|| Make(app.catalog.clone(), Arc::clone(&app.schedule))),
        source: source.cloned(),
        options: ImportOptions {
            dry_run: request.dry_run,
            accept: request.accept,
            now: cx.now,
            retention_days: app.config.schedule.retention_days,
        },
    };
    let (fed, done) = tokio::join!(feed.pass(request.file), bulk(app, move || import.run(body)));
    // What is wrong with the upload is the cause of whatever the import thinks of it.
    fed?;
    let (outcome, report) = done?;
    if outcome == Outcome::Held {
        let report = serde_json::to_value(&report).map_err(ApiError::internal)?;
        return Err(ApiError::new(
            ErrorCode::ImportHeld,
            "the guide looks implausible and was not taken; accept it to take it as it is",
        )
        .with_details(Details::Report(report)));
    }
    Reply::json_with(StatusCode::OK, &report)
}

/// An import, on its way to a thread that may block.
struct Import {
    schedule: Arc<Schedule>,
    make: Option<Make>,
    source: Option<GuideSource>,
    options: ImportOptions,
}

impl Import {
    fn run(self, body: BodyReader) -> Result<(Outcome, WireReport), ApiError> {
        let draft = self.read(body).map_err(ScheduleError::Guide)?;
        let report = match &self.make {
            Some(make) => self.schedule.import_making(draft, &self.options, make)?,
            None => self.schedule.import(draft, &self.options)?,
        };
        Ok((report.outcome, WireReport::from(&report)))
    }

    fn read(&self, body: BodyReader) -> Result<Draft, GuideError> {
        let source = self.source.as_ref();
        let options = XmltvOptions {
            zone: source.map_or(chrono_tz::Tz::UTC, |source| source.zone),
            languages: source.map_or_else(Vec::new, |source| source.languages.clone()),
            ratings: Arc::new(Ratings::built_in()),
        };
        let mut guide = guide::source(unpack(body)?, options)?;
        let channels = source.map(|source| source.channels.clone().into_iter().collect());
        Draft::read(&mut *guide, &channels.unwrap_or_default())
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
