//! The XMLTV and M3U export, for players and recorders that support only these formats.

use std::sync::Arc;

use http::header::{CACHE_CONTROL, LOCATION};
use http::{HeaderValue, StatusCode};

use crate::partner::schedule::livestream;
use playgate_domain::catalog::{Livestream, Location};
use playgate_domain::entitlement::Denied;
use playgate_domain::playback::PlaybackError;
use playgate_formats::m3u::M3uEntry;
use playgate_formats::{m3u, xmltv};
use playgate_http::response::reply::media;
use playgate_http::response::xmltv_cache::GzipExport;
use playgate_http::{
    ApiError, CombineResults, Context, ErrorCode, HttpState, IdList, Input, Kept, ParseRequest,
    PartnerAuth, Payload, Prepared, Reply,
};
use playgate_media::loop_channel::{self, ManifestRange};
use playgate_process::Turn;
use playgate_services::Services;
use playgate_types::time::{DAY, HOUR};
use playgate_types::{LivestreamId, Malformed, MediaPath, Protocol, UnixSeconds, percent_encoded};

crate::openapi::words::words! { => r##"
[operations.xmltv]
summary = "Schedule as XMLTV"
text = '''
For applications such as Kodi. Channel ids are livestream ids. A livestream without broadcasts is left out. The partner token may be sent in the query parameter `accessToken`. Other parameters than those below are refused.'''
query.days = "ExportDays?: Days ahead. Without it, as far as the schedule goes."
query.days_back = "ExportDays?: Days back. Without it, all that is kept."
query.livestreams = "LivestreamIds?: Livestreams. Without it, all."
kept = true
returns."200" = { text = "The guide.", media = ["application/xml; charset=utf-8"], example = '''
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tv SYSTEM "xmltv.dtd">
<tv generator-info-name="Playgate">
  <channel id="news">
    <display-name>News</display-name>
  </channel>
  <programme start="20260101120000 +0000" stop="20260101123000 +0000" channel="news">
    <title>Evening news</title>
    <desc>The day.</desc>
    <rating><value>0</value></rating>
  </programme>
</tv>
''' }

[operations.m3u]
summary = "Livestreams as an M3U playlist"
text = '''
For players such as Kodi. Lists the livestreams that need no account: not encrypted, and in an offer of type `default` that is valid now and in the viewer's country. The addresses in the list contain the partner token of this request, so the list is as secret as the token. The list also contains the address of the XMLTV guide. A livestream whose past programs can be played without a session has `catchup-source`, in which players replace `{utc}`.'''
kept = true
returns."200" = { text = "The playlist.", media = ["audio/x-mpegurl; charset=utf-8"], example = '''
#EXTM3U url-tvg="https://tv.example/api/schedule/v1/xmltv?accessToken=7b1c9a52-5f64-4a04-8d6e-0d6a4b8f2c31" x-tvg-url="https://tv.example/api/schedule/v1/xmltv?accessToken=7b1c9a52-5f64-4a04-8d6e-0d6a4b8f2c31"
#EXTINF:-1 tvg-id="news" tvg-name="News" tvg-chno="1" group-title="Public" catchup="default" catchup-days="7" catchup-source="https://tv.example/api/schedule/v1/m3u/news/index.m3u8?accessToken=7b1c9a52-5f64-4a04-8d6e-0d6a4b8f2c31&utc={utc}",News
https://tv.example/api/schedule/v1/m3u/news/index.m3u8?accessToken=7b1c9a52-5f64-4a04-8d6e-0d6a4b8f2c31
''' }

[operations.watch]
summary = "Redirect from the M3U playlist to the manifest"
text = '''
Rights are checked at the time of the request. An address of the built-in origin is signed until the next program without live rights begins, the offer ends, or twelve hours have passed. With `utc`, the manifest is that of the program on air then, if it is in its catch-up window.'''
query.utc = "Time?: Start of a past program. Without it, the livestream."
returns."302" = { text = "Redirect to the manifest.", headers = { Location = "string: The address of the manifest." } }
errors = ["ASSET_NOT_FOUND", "LIVESTREAM_NOT_FOUND", "GEO_BLOCKED", "NOT_ENTITLED", "NOT_AVAILABLE", "NO_LIVE_RIGHTS", "PROTOCOL_NOT_AVAILABLE"]
"## }

/// Validity of a signed manifest address, in seconds. Short enough that an address that is passed
/// on is worth little; long enough not to interrupt an evening.
const VALIDITY_MAX: i64 = 12 * HOUR;

pub(crate) async fn xmltv(
    http: &HttpState,
    cx: &Context,
    auth: PartnerAuth,
    request: XmltvRequest,
) -> Result<Reply, ApiError> {
    // Channel ids are livestream ids, so that an export can be imported again without a channel map.
    let services = &http.services;
    // Read before the schedule: an export must not be kept for a generation that is newer than it.
    let generation = services.schedule.generation();
    let turn = Turn::for_client(Some(auth.partner()), cx.peer);
    let exporting = Arc::clone(services);
    let part = ExportPart::new(&request, cx.now);
    let key = part.key(&request);
    let make = move || async move {
        let livestreams = exported_livestreams(&exporting, &request);
        let pieces = xmltv::pieces(Arc::clone(&exporting.schedule), livestreams, part.span)
            .map(|piece| piece.map_err(Into::into));
        let made = exporting.compression.run_for(turn, move |()| {
            GzipExport::from_pieces(pieces).map_err(ApiError::internal)
        })?;
        made.await?
    };
    // Built once per change of the schedule: it is the same for all partners.
    let export = http.xmltv.get_or_make(generation, key, make).await?;
    let kept = Kept {
        tag: export.tag(),
        max_age: services.config.schedule.max_age,
    };
    Ok(Reply::export(kept, media::XML, export))
}

/// The part of the schedule that a request asks for.
struct ExportPart {
    /// Begin and end, in full hours, so that requests of an hour share one export.
    span: (UnixSeconds, UnixSeconds),
}

impl ExportPart {
    fn new(request: &XmltvRequest, now: UnixSeconds) -> Self {
        let hour = now.0.div_euclid(HOUR) * HOUR;
        let back = request
            .days_back
            .map(|days| UnixSeconds(hour - i64::from(days) * DAY));
        let ahead = request
            .days
            .map(|days| UnixSeconds(hour + HOUR + i64::from(days) * DAY));
        Self {
            span: (
                back.unwrap_or(UnixSeconds(i64::MIN)),
                ahead.unwrap_or(UnixSeconds(i64::MAX)),
            ),
        }
    }

    /// Empty for the whole schedule.
    fn key(&self, request: &XmltvRequest) -> String {
        let livestreams = request.livestreams.as_ref();
        if request.days.is_none() && request.days_back.is_none() && livestreams.is_none() {
            return String::new();
        }
        let livestreams = livestreams.map_or_else(String::new, ToString::to_string);
        format!("{} {} {livestreams}", self.span.0, self.span.1)
    }
}

fn exported_livestreams(services: &Services, request: &XmltvRequest) -> Vec<Arc<Livestream>> {
    let (catalog, schedule) = (services.catalog.snapshot(), services.schedule.snapshot());
    let exported = catalog.livestreams().filter(|livestream| {
        let channel = schedule.channel(livestream.id.as_str());
        // The XMLTV validator rejects a channel without programmes.
        let asked = request.livestreams.as_ref();
        channel.is_some_and(|channel| !channel.is_empty())
            && asked.is_none_or(|asked| asked.has(livestream.id.as_str()))
    });
    exported.cloned().collect()
}

pub(crate) fn m3u(
    http: &HttpState,
    cx: &Context,
    _auth: PartnerAuth,
    request: M3uRequest,
) -> Result<Reply, ApiError> {
    let services = &http.services;
    let base = format!("{}/api/schedule/v1", http.settings.public_url);
    let token = percent_encoded(&request.access_token);
    let country = cx.country(services.geoip.as_deref());
    // One snapshot for the whole list: an import in between must not mix two catalogues.
    let snapshot = services.catalog.snapshot();
    let entries = snapshot.livestreams().filter_map(|livestream| {
        let open =
            services
                .entitlement
                .public_access(&livestream.id, country, cx.now, VALIDITY_MAX);
        // The current program may be withheld while the next one is not: list the livestream
        // anyway.
        matches!(open, Ok(_) | Err(Denied::NoLiveRights)).then_some(())?;
        let mut manifests = MANIFESTS.iter();
        let live = ManifestRange::Live;
        let (protocol, manifest) =
            manifests.find(|(one, _)| open_manifest(livestream, *one, live).is_some())?;
        let id = percent_encoded(livestream.id.as_str());
        // An address that redirects when it is used: rights are checked when a viewer tunes in. Players send
        // no headers, so it carries the token; the list is as secret as that.
        let address = format!("{base}/m3u/{id}/{manifest}?accessToken={token}");
        let any = ManifestRange::Window {
            start: cx.now,
            stop: cx.now,
        };
        // Players fill in the start of the program.
        let catchup =
            livestream.catchup_days > 0 && open_manifest(livestream, *protocol, any).is_some();
        let catchup = catchup.then(|| format!("{address}&utc={{utc}}"));
        Some(M3uEntry {
            livestream,
            address,
            catchup,
        })
    });
    let guide = format!("{base}/xmltv?accessToken={token}");
    let list = m3u::list(&guide, entries);
    let kept = Kept {
        tag: Kept::tag_of(list.as_bytes()),
        max_age: services.config.schedule.max_age,
    };
    Ok(Reply::prepared(Prepared {
        media: media::M3U,
        body: Arc::new(list.into()),
        kept,
        until: None,
    }))
}

pub(crate) fn watch(
    http: &HttpState,
    cx: &Context,
    _auth: PartnerAuth,
    request: PlaylistRedirectRequest,
) -> Result<Reply, ApiError> {
    let services = &http.services;
    let country = cx.country(services.geoip.as_deref());
    let (entitlement, id) = (&services.entitlement, &request.livestream);
    let (livestream, range, until) = match request.catchup {
        None => {
            let open = entitlement.public_access(id, country, cx.now, VALIDITY_MAX)?;
            (open.livestream, ManifestRange::Live, open.until)
        }
        Some(at) => {
            let open = entitlement.public_catchup(id, country, (at, cx.now), VALIDITY_MAX)?;
            let (start, stop) = (open.start, open.stop);
            (
                open.livestream,
                ManifestRange::Window { start, stop },
                open.until,
            )
        }
    };
    let manifest = open_manifest(&livestream, request.protocol, range);
    let address = match manifest.ok_or(PlaybackError::ProtocolNotAvailable)? {
        OpenManifest::Origin(path) => {
            // No heartbeat can end this playback, so the address expires with the next program without live
            // rights, with the offer, or after twelve hours.
            let address = services.playback.origin_address(&path, until, cx.now);
            format!("{}{address}", http.settings.public_url)
        }
        OpenManifest::Address(address) => address,
    };
    let address = HeaderValue::from_str(&address).map_err(ApiError::internal)?;
    Ok(Reply::no_content()
        .with_status(StatusCode::FOUND)
        .with_header(LOCATION, address)
        .with_header(CACHE_CONTROL, HeaderValue::from_static("no-store")))
}

enum OpenManifest {
    Origin(MediaPath),
    Address(String),
}

/// Returns the manifest of a livestream that can be played without a session.
fn open_manifest(
    livestream: &Livestream,
    protocol: Protocol,
    range: ManifestRange,
) -> Option<OpenManifest> {
    match livestream.playlist.location(protocol)? {
        Location::Loop(path) => loop_channel::manifest(path, range).map(OpenManifest::Origin),
        // Only a loop channel has addresses of past programs.
        Location::Origin(_) | Location::Address(_) if range != ManifestRange::Live => None,
        Location::Origin(path) => MediaPath::parse(path).map(OpenManifest::Origin),
        // Only a session can fill in the placeholders.
        Location::Address(address) if address.contains('{') => None,
        Location::Address(address) => Some(OpenManifest::Address(address.to_owned())),
    }
}

/// Most days of an XMLTV export in each direction.
const EXPORT_DAYS: u32 = 3_660;

/// Which part of the schedule is exported as XMLTV: all of it without parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct XmltvRequest {
    pub days: Option<u32>,
    pub days_back: Option<u32>,
    pub livestreams: Option<IdList<LivestreamId>>,
}

impl ParseRequest for XmltvRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let query = &input.query;
        let known = ["days", "days_back", "livestreams", "accessToken"];
        let number = |text: &str| {
            let number = text.parse().ok().filter(|days| *days <= EXPORT_DAYS);
            number.ok_or(Malformed("is a number of days from 0 to 3660"))
        };
        query.only("query", &known)?;
        let days = (
            query.parsed("days", number),
            query.parsed("days_back", number),
        );
        let (days, livestreams) = (days.combine(), query.ids("livestreams")).combine()?;
        Ok(Self {
            days: days.0,
            days_back: days.1,
            livestreams,
        })
    }
}

pub(crate) struct M3uRequest {
    pub access_token: String,
}

impl ParseRequest for M3uRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        // Players that only take an address send the token in the query.
        let sent = match input.heads.access_token.ascii() {
            Some(token) => token.into(),
            None => input.query.one("accessToken")?.unwrap_or_default(),
        };
        Ok(Self {
            access_token: sent.into_owned(),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlaylistRedirectRequest {
    pub livestream: LivestreamId,
    pub protocol: Protocol,
    /// The start of the program to catch up.
    pub catchup: Option<UnixSeconds>,
}

/// File names of the manifests in the playlist. Players detect the protocol by the extension.
pub(crate) const MANIFESTS: [(Protocol, &str); 2] =
    [(Protocol::Hls, "index.m3u8"), (Protocol::Dash, "index.mpd")];

impl ParseRequest for PlaylistRedirectRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let (livestream, utc) = (
            livestream(input),
            input.number("utc", 12, "must be a time in Unix seconds"),
        )
            .combine()?;
        let name = input.text("manifest")?;
        let found = MANIFESTS.iter().find(|(_, manifest)| *manifest == name);
        let (protocol, _) = found.ok_or_else(|| {
            let why = "no such manifest; use index.m3u8 or index.mpd";
            ApiError::new(ErrorCode::ProtocolNotAvailable, why)
        })?;
        Ok(Self {
            livestream,
            protocol: *protocol,
            catchup: utc.map(UnixSeconds),
        })
    }
}
