//! Handlers of the schedule for operators: the answers that partners get, of all livestreams if none is
//! named, and never kept: who has just changed a right wants to see it.

use crate::app::App;
use crate::domain::schedule::{Answer, QueryError};
use crate::http::auth::OperatorAuth;
use crate::http::context::Context;
use crate::http::endpoint::admin::schedule::{ScheduleDayRequest, ScheduleLiveRequest};
use crate::http::error::ApiError;
use crate::http::query::IdList;
use crate::http::reply::{Reply, media};
use crate::types::LivestreamId;

/// GET what is on.
///
/// # Errors
/// `LIVESTREAM_NOT_FOUND` if none of those named is known.
pub fn live(
    app: &App,
    cx: &Context,
    _auth: OperatorAuth,
    request: ScheduleLiveRequest,
) -> Result<Reply, ApiError> {
    let snapshot = app.schedule.snapshot();
    respond(app, request.livestreams, |livestreams| {
        snapshot.live(livestreams, request.offset, cx.now)
    })
}

/// GET the broadcasts of a tv day.
///
/// # Errors
/// `LIVESTREAM_NOT_FOUND` if none of those named is known.
pub fn day(
    app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    request: ScheduleDayRequest,
) -> Result<Reply, ApiError> {
    let snapshot = app.schedule.snapshot();
    respond(app, request.livestreams, |livestreams| {
        snapshot.day(livestreams, request.day, app.schedule.view())
    })
}

fn respond(
    app: &App,
    named: Option<IdList<LivestreamId>>,
    ask: impl FnOnce(&[LivestreamId]) -> Result<Answer, QueryError>,
) -> Result<Reply, ApiError> {
    let answer = match named {
        Some(named) => ask(named.as_slice())?,
        None => {
            let catalog = app.catalog.snapshot();
            let all: Vec<_> = catalog.livestreams().map(|one| one.id.clone()).collect();
            if all.is_empty() {
                return Ok(Reply::empty_object());
            }
            ask(&all)?
        }
    };
    Ok(Reply::bytes(media::JSON, answer.body.joined()))
}
