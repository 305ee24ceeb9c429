//! The catalogue for clients: the lists of livestreams and assets.

use std::sync::Arc;

use http::HeaderValue;
use http::header::LINK;
use serde::Serialize;

use playgate_domain::catalog::{Asset, ExtendedRights, Livestream, Window};
use playgate_domain::schedule::Image;
use playgate_http::response::reply::media;
use playgate_http::{
    ApiError, CombineResults, CompressibleBody, Context, HttpState, Input, Kept, ParseRequest,
    PartnerAuth, Payload, Prepared, Reply,
};
use playgate_services::Services;
use playgate_types::{AssetId, LivestreamId, Malformed, percent_encoded};

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

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageRequest<T> {
    pub limit: Option<usize>,
    pub after: Option<T>,
}

const PAGE_MAX: usize = 500;

impl ParseRequest for PageRequest<LivestreamId> {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Self::read(input, LivestreamId::parse)
    }
}

impl ParseRequest for PageRequest<AssetId> {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Self::read(input, AssetId::parse)
    }
}

impl<T> PageRequest<T> {
    pub(crate) const fn is_whole(&self) -> bool {
        self.limit.is_none() && self.after.is_none()
    }

    fn read(
        input: &Input<'_>,
        id: impl FnOnce(&str) -> Result<T, Malformed>,
    ) -> Result<Self, ApiError> {
        let why = "must be an integer from 1 to 500";
        let limit = input.number_in("limit", 1..=PAGE_MAX, why);
        let (limit, after) = (limit, input.query.parsed("after", id)).combine()?;
        Ok(Self { limit, after })
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ImageReply<'a> {
    r#type: &'a str,
    default: bool,
    filename: &'a str,
    embedded_text: bool,
}

impl<'a> From<&'a Image> for ImageReply<'a> {
    fn from(image: &'a Image) -> Self {
        Self {
            r#type: &image.kind,
            default: image.default,
            filename: &image.filename,
            embedded_text: image.embedded_text,
        }
    }
}

fn images(images: &[Image]) -> Vec<ImageReply<'_>> {
    images.iter().map(ImageReply::from).collect()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExtendedRightsReply {
    pause: bool,
    rewind: bool,
    fast_forward: bool,
}

/// A livestream. Its rights are the defaults of its broadcasts.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LivestreamReply<'a> {
    id: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    images: Vec<ImageReply<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    zone: &'static str,
    live_rights: bool,
    catchup_days: u16,
    start_over: bool,
    extended_rights: ExtendedRightsReply,
    encrypted: bool,
    protocols: Vec<&'static str>,
}

impl<'a> From<&'a Livestream> for LivestreamReply<'a> {
    fn from(livestream: &'a Livestream) -> Self {
        let ExtendedRights {
            pause,
            rewind,
            fast_forward,
        } = livestream.extended;
        Self {
            id: livestream.id.as_str(),
            name: &livestream.name,
            images: images(&livestream.images),
            number: livestream.number,
            group: livestream.group.as_deref(),
            zone: livestream.zone.name(),
            live_rights: livestream.live_rights,
            catchup_days: livestream.catchup_days,
            start_over: livestream.start_over,
            extended_rights: ExtendedRightsReply {
                pause,
                rewind,
                fast_forward,
            },
            encrypted: livestream.encrypted,
            protocols: livestream.playlist.0.keys().map(|p| p.as_str()).collect(),
        }
    }
}

#[derive(Serialize)]
pub(crate) struct WindowReply {
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<i64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AssetReply<'a> {
    id: &'a str,
    title: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    images: Vec<ImageReply<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pg_age: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    available: Option<WindowReply>,
    encrypted: bool,
    protocols: Vec<&'static str>,
}

impl<'a> From<&'a Asset> for AssetReply<'a> {
    fn from(asset: &'a Asset) -> Self {
        let Window { from, to } = asset.available;
        let bounded = from.is_some() || to.is_some();
        Self {
            id: asset.id.as_str(),
            title: &asset.title,
            images: images(&asset.images),
            pg_age: asset.pg_age,
            // Left out without bounds: an empty window would read as never.
            available: bounded.then(|| WindowReply {
                from: from.map(|at| at.0),
                to: to.map(|at| at.0),
            }),
            encrypted: asset.encrypted,
            protocols: asset.playlist.0.keys().map(|p| p.as_str()).collect(),
        }
    }
}
