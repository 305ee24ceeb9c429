//! Handlers of the catalogue for clients: the lists of livestreams and assets.

pub(crate) mod answer;

use std::sync::Arc;

use http::HeaderValue;
use http::header::LINK;
use serde::Serialize;

use crate::partner::catalog::answer::{AssetReply, LivestreamReply};
use crate::partner::schedule::request::PageRequest;
use playgate_http::access::auth::PartnerAuth;
use playgate_http::errors::api_error::ApiError;
use playgate_http::request::context::Context;
use playgate_http::response::prepared::{CompressibleBody, Kept, Prepared};
use playgate_http::response::reply::{Reply, media};
use playgate_http::state::HttpState;
use playgate_services::Services;
use playgate_types::percent_encoded;
use playgate_types::{AssetId, LivestreamId};

pub(crate) fn livestreams(
    http: &HttpState,
    _cx: &Context,
    _auth: PartnerAuth,
    request: PageRequest<LivestreamId>,
) -> Result<Reply, ApiError> {
    let services = &http.services;
    let snapshot = services.catalog.snapshot();
    if request.is_whole() {
        let lines = || {
            snapshot
                .livestreams()
                .map(|one| LivestreamReply::from(&**one))
        };
        let make = || prepared(services, lines().collect());
        return http
            .catalog_lists
            .get_or_make(&snapshot, "livestreams", make);
    }
    let page = Page::new(snapshot.livestreams(), &request, |one| &one.id);
    let lines = page.rows.iter().map(|one| LivestreamReply::from(&***one));
    let next = page.next(&request, "livestreams", |one| one.id.as_str());
    reply(services, lines.collect(), next)
}

pub(crate) fn assets(
    http: &HttpState,
    _cx: &Context,
    _auth: PartnerAuth,
    request: PageRequest<AssetId>,
) -> Result<Reply, ApiError> {
    let services = &http.services;
    let snapshot = services.catalog.snapshot();
    if request.is_whole() {
        let lines = || snapshot.assets().map(|one| AssetReply::from(&**one));
        let make = || prepared(services, lines().collect());
        return http.catalog_lists.get_or_make(&snapshot, "assets", make);
    }
    let page = Page::new(snapshot.assets(), &request, |one| &one.id);
    let lines = page.rows.iter().map(|one| AssetReply::from(&***one));
    let next = page.next(&request, "assets", |one| one.id.as_str());
    reply(services, lines.collect(), next)
}

struct Page<R> {
    rows: Vec<R>,
    more: bool,
}

impl<R: Copy> Page<R> {
    fn new<I: Ord>(
        all: impl Iterator<Item = R>,
        request: &PageRequest<I>,
        id: impl Fn(&R) -> &I,
    ) -> Self {
        let after = request.after.as_ref();
        let mut rest = all
            // A page begins after an id instead of at a number, so that a row that is added or removed between two
            // pages shifts nothing.
            .skip_while(|row| after.is_some_and(|after| id(row) <= after))
            .peekable();
        let limit = request.limit.unwrap_or(usize::MAX);
        let rows = rest.by_ref().take(limit).collect();
        let more = rest.peek().is_some();
        Self { rows, more }
    }

    fn next<I>(
        &self,
        request: &PageRequest<I>,
        list: &str,
        id: impl Fn(&R) -> &str,
    ) -> Option<HeaderValue> {
        let last = self.rows.last().filter(|_| self.more)?;
        let (limit, after) = (request.limit?, percent_encoded(id(last)));
        let link = format!("</api/catalog/v1/{list}?limit={limit}&after={after}>; rel=\"next\"");
        HeaderValue::try_from(link).ok()
    }
}

fn reply<T: Serialize>(
    services: &Services,
    lines: Vec<T>,
    next: Option<HeaderValue>,
) -> Result<Reply, ApiError> {
    let reply = Reply::prepared(prepared(services, lines)?);
    Ok(match next {
        Some(next) => reply.with_header(LINK, next),
        None => reply,
    })
}

fn prepared<T: Serialize>(services: &Services, lines: Vec<T>) -> Result<Prepared, ApiError> {
    let body = serde_json::to_vec(&lines).map_err(ApiError::internal)?;
    let kept = Kept {
        // A hash of the bytes, because the catalogue has no generation that survives a restart.
        tag: Kept::tag_of(&body),
        max_age: services.config.schedule.max_age,
    };
    Ok(Prepared {
        media: media::JSON,
        body: Arc::new(CompressibleBody::from(body)),
        kept,
        until: None,
    })
}
