//! Handlers of the XMLTV and M3U export, for players and recorders that support only these formats.

use std::sync::Arc;

use http::header::{CACHE_CONTROL, LOCATION};
use http::{HeaderValue, StatusCode};

use crate::domain::catalog::{Livestream, Location};
use crate::domain::entitlement::Denied;
use crate::domain::playback::PlaybackError;
use crate::http::access::auth::PartnerAuth;
use crate::http::errors::api_error::ApiError;
use crate::http::request::context::Context;
use crate::http::response::reply::{Kept, Prepared, Reply, media};
use crate::http::response::xmltv_cache::GzipExport;
use crate::http::routing::endpoint::schedule::{
    M3uRequest, MANIFESTS, PlaylistRedirectRequest, encoded,
};
use crate::http::state::HttpState;
use crate::http::wire::{m3u, xmltv};
use crate::media::loop_channel::{self, ManifestRange};
use crate::services::Services;
use crate::types::time::HOUR;
use crate::types::{MediaPath, Protocol};
use crate::worker_pool::fair_queue::Turn;

/// Validity of a signed manifest address, in seconds. Short enough that an address that is passed
/// on is worth little; long enough not to interrupt an evening.
const VALIDITY_MAX: i64 = 12 * HOUR;

/// `GET /api/schedule/v1/xmltv`: exports the schedule as XMLTV. Channel ids are livestream ids, so an export
/// can be imported again without a channel map.
pub(crate) async fn xmltv(
    http: &HttpState,
    cx: &Context,
    auth: PartnerAuth,
) -> Result<Reply, ApiError> {
    let services = &http.services;
    // Read before the schedule: a change in between makes the tag too old, never too new.
    let generation = services.schedule.generation();
    let make = async || {
        let livestreams = exported_livestreams(services);
        let pieces = xmltv::pieces(Arc::clone(&services.schedule), livestreams);
        let turn = Turn::for_client(Some(auth.partner()), cx.peer);
        let made = services.compression.run_for(turn, move |()| {
            GzipExport::from_pieces(pieces).map_err(ApiError::internal)
        })?;
        made.await?
    };
    // Built once per change of the schedule: it is the same for all partners.
    let export = http.xmltv.get_or_make(generation, make).await?;
    let kept = Kept {
        tag: http.etag_seed.wrapping_add(generation),
        max_age: services.config.schedule.max_age,
    };
    Ok(Reply::export(kept, media::XML, export))
}

fn exported_livestreams(services: &Services) -> Vec<Arc<Livestream>> {
    let (catalog, schedule) = (services.catalog.snapshot(), services.schedule.snapshot());
    let exported = catalog.livestreams().filter(|livestream| {
        let channel = schedule.channel(livestream.id.as_str());
        // The XMLTV validator rejects a channel without programmes.
        channel.is_some_and(|channel| !channel.is_empty())
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
    let token = encoded(&request.access_token);
    let country = cx.country(services.geoip.as_deref());
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
        let (_, manifest) = manifests.find(|(one, _)| open_manifest(livestream, *one).is_some())?;
        let id = encoded(livestream.id.as_str());
        // An address that redirects when it is used: rights are checked when a viewer tunes in. Players send
        // no headers, so it carries the token; the list is as secret as that.
        let address = format!("{base}/m3u/{id}/{manifest}?accessToken={token}");
        Some((&**livestream, address))
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
    let open =
        services
            .entitlement
            .public_access(&request.livestream, country, cx.now, VALIDITY_MAX)?;
    let manifest = open_manifest(&open.livestream, request.protocol);
    let address = match manifest.ok_or(PlaybackError::ProtocolNotAvailable)? {
        OpenManifest::Origin(path) => {
            // No heartbeat can end this playback, so the address expires with the next program without live
            // rights, with the offer, or after twelve hours.
            let address = services.playback.origin_address(&path, open.until, cx.now);
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
fn open_manifest(livestream: &Arc<Livestream>, protocol: Protocol) -> Option<OpenManifest> {
    match livestream.playlist.location(protocol)? {
        Location::Origin(path) => MediaPath::parse(path).map(OpenManifest::Origin),
        Location::Loop(path) => {
            loop_channel::manifest(path, ManifestRange::Live).map(OpenManifest::Origin)
        }
        // Only a session can fill in the placeholders.
        Location::Address(address) if address.contains('{') => None,
        Location::Address(address) => Some(OpenManifest::Address(address.to_owned())),
    }
}
