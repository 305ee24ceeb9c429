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
use playgate_types::{
    AssetId, Described, JsonType, LivestreamId, Malformed, Protocol, UnixSeconds, percent_encoded,
};

crate::openapi::words::words! { AssetBody, ExtendedRightsBody, LivestreamBody => r##"
[operations.livestreams]
summary = "List livestreams"
text = "Ordered by id. Returns all of them, or a page if `limit` is set. For the next page send the last id of this page as `after`, or follow the `Link` header, which is present if there is a next page."
query.limit = "CatalogPageSize?: Maximum number of entries. Default: all."
query.after = "LivestreamId?: Returns entries after this id."
kept = true
returns."200" = { text = "The livestreams.", type = "[Livestream]", headers = { Link = "string?: Address of the next page, with `rel=next`. Absent on the last page." } }

[operations.assets]
summary = "List videos on demand"
text = "Ordered by id. Returns all of them, or a page if `limit` is set. For the next page send the last id of this page as `after`, or follow the `Link` header, which is present if there is a next page."
query.limit = "CatalogPageSize?: Maximum number of entries. Default: all."
query.after = "AssetId?: Returns entries after this id."
kept = true
returns."200" = { text = "The videos on demand.", type = "[Asset]", headers = { Link = "string?: Address of the next page, with `rel=next`. Absent on the last page." } }
"## }

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
                .map(|one| LivestreamBody::from(&**one))
        };
        let make = || prepared(services, lines().collect());
        return http
            .catalog_lists
            .get_or_make(&snapshot, "livestreams", make);
    }
    let page = Page::new(snapshot.livestreams(), &request, |one| &one.id);
    let lines = page.rows.iter().map(|one| LivestreamBody::from(&***one));
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
        let lines = || snapshot.assets().map(|one| AssetBody::from(&**one));
        let make = || prepared(services, lines().collect());
        return http.catalog_lists.get_or_make(&snapshot, "assets", make);
    }
    let page = Page::new(snapshot.assets(), &request, |one| &one.id);
    let lines = page.rows.iter().map(|one| AssetBody::from(&***one));
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

#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExtendedRightsBody {
    /// Whether pausing is allowed.
    pause: bool,
    /// Whether rewinding is allowed.
    rewind: bool,
    /// Whether fast-forwarding is allowed.
    fast_forward: bool,
}

/// A livestream. Its rights are the defaults of its broadcasts.
#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LivestreamBody<'a> {
    /// Id of the livestream. Also an asset id.
    id: &'a LivestreamId,
    /// Name of the livestream, for viewers.
    name: &'a str,
    /// Images. Absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[described(JsonType::List(&JsonType::Named("Image")))]
    images: Vec<ImageReply<'a>>,
    /// Channel number. Absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u16>,
    /// Heading under which lists show it. Absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    /// Time zone of its TV days.
    zone: &'static str,
    /// Whether broadcasts may be watched live by default. The schedule may override it.
    live_rights: bool,
    /// Default length of the catch-up window in days after a broadcast's end; 0 means no catch-up. The schedule may
    /// override it.
    catchup_days: u16,
    /// Whether a running broadcast may be restarted from its beginning.
    start_over: bool,
    /// Default player controls. The schedule may override them.
    extended_rights: ExtendedRightsBody,
    /// Whether playback needs a license.
    encrypted: bool,
    /// Streaming protocols for which the livestream has a playlist.
    protocols: Vec<Protocol>,
}

impl<'a> From<&'a Livestream> for LivestreamBody<'a> {
    fn from(livestream: &'a Livestream) -> Self {
        let ExtendedRights {
            pause,
            rewind,
            fast_forward,
        } = livestream.extended;
        Self {
            id: &livestream.id,
            name: &livestream.name,
            images: images(&livestream.images),
            number: livestream.number,
            group: livestream.group.as_deref(),
            zone: livestream.zone.name(),
            live_rights: livestream.live_rights,
            catchup_days: livestream.catchup_days,
            start_over: livestream.start_over,
            extended_rights: ExtendedRightsBody {
                pause,
                rewind,
                fast_forward,
            },
            encrypted: livestream.encrypted,
            protocols: livestream.playlist.0.keys().copied().collect(),
        }
    }
}

#[derive(Described, Serialize)]
pub(crate) struct AvailabilityWindow {
    /// Begin, inclusive. Absent if the period has no begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<UnixSeconds>,
    /// End, exclusive. Absent if the period has no end.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<UnixSeconds>,
}

#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AssetBody<'a> {
    /// Id of the video on demand.
    id: &'a AssetId,
    /// Title of the video, for viewers.
    title: &'a str,
    /// Images. Absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[described(JsonType::List(&JsonType::Named("Image")))]
    images: Vec<ImageReply<'a>>,
    /// Minimum age. Absent if not rated.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[described(JsonType::Named("Age"))]
    pg_age: Option<u8>,
    /// Period in which it may be played. Absent if there is no restriction.
    #[serde(skip_serializing_if = "Option::is_none")]
    available: Option<AvailabilityWindow>,
    /// Whether playback needs a license.
    encrypted: bool,
    /// Streaming protocols for which the video has a playlist.
    protocols: Vec<Protocol>,
}

impl<'a> From<&'a Asset> for AssetBody<'a> {
    fn from(asset: &'a Asset) -> Self {
        let Window { from, to } = asset.available;
        let bounded = from.is_some() || to.is_some();
        Self {
            id: &asset.id,
            title: &asset.title,
            images: images(&asset.images),
            pg_age: asset.pg_age,
            // Left out without bounds: an empty window would read as never.
            available: bounded.then_some(AvailabilityWindow { from, to }),
            encrypted: asset.encrypted,
            protocols: asset.playlist.0.keys().copied().collect(),
        }
    }
}
