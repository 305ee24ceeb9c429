//! Handlers of the export: for programs that know XMLTV and M3U and nothing else of ours.

use std::sync::Arc;

use http::header::{CACHE_CONTROL, LOCATION};
use http::{HeaderValue, StatusCode};

use crate::app::App;
use crate::domain::catalog::{Livestream, Location};
use crate::domain::entitlement::Denied;
use crate::domain::loop_channel::{self, ManifestRange};
use crate::domain::playback::PlaybackError;
use crate::http::auth::PartnerAuth;
use crate::http::context::Context;
use crate::http::endpoint::schedule::{M3uRequest, MANIFESTS, PlaylistRedirectRequest, encoded};
use crate::http::error::ApiError;
use crate::http::fair_queue::Turn;
use crate::http::reply::{Kept, Prepared, Reply, media};
use crate::http::wire::{m3u, xmltv};
use crate::http::xmltv_cache::GzipExport;
use crate::types::time::HOUR;
use crate::types::{MediaPath, Protocol};

/// For how long a livestream is watched at the most before the player asks again, in seconds: an
/// address that was passed on is worth little, and an evening is not cut.
const WATCHED_MOST: i64 = 12 * HOUR;

/// The schedule as XMLTV, made once for each change of the schedule.
///
/// Decision: a livestream without broadcasts is left out: to the format's own checker a channel
/// without programmes is a mistake. Channels have the ids of livestreams, which are kept as given,
/// so that an export goes back in without a map.
///
/// # Errors
/// `OVERLOADED` if the pool has no room; `INTERNAL` if the store cannot be read.
pub async fn xmltv(app: &App, cx: &Context, auth: PartnerAuth) -> Result<Reply, ApiError> {
    // Read before the schedule: a change in between makes the tag too old, never too new.
    let generation = app.schedule.generation();
    let make = async || {
        let livestreams = exported_livestreams(app);
        let pieces = xmltv::pieces(Arc::clone(&app.schedule), livestreams);
        let turn = Turn::for_client(Some(auth.partner()), cx.peer);
        let made = app.compression.run_for(turn, move |()| {
            GzipExport::from_pieces(pieces).map_err(ApiError::internal)
        })?;
        made.await?
    };
    let export = app.front.xmltv.get_or_make(generation, make).await?;
    let kept = Kept {
        tag: app.front.etag_seed.wrapping_add(generation),
        max_age: app.config.schedule.max_age,
    };
    Ok(Reply::export(kept, media::XML, export))
}

/// The livestreams that have broadcasts.
fn exported_livestreams(app: &App) -> Vec<Arc<Livestream>> {
    let (catalog, schedule) = (app.catalog.snapshot(), app.schedule.snapshot());
    let exported = catalog.livestreams().filter(|livestream| {
        let channel = schedule.channel(livestream.id.as_str());
        channel.is_some_and(|channel| !channel.is_empty())
    });
    exported.cloned().collect()
}

/// The livestreams that anybody may watch, as M3U.
///
/// Decision: an entry is an address of ours, which sends the player on when it is used, so that
/// rights are looked at when a viewer tunes in and not when the list was fetched. Players send no
/// headers: entries carry the partner token that the list was asked for with, and so the list is as
/// secret as that token. What is encrypted, sold, or kept from the viewer's country is not listed:
/// no player of such a list could show it.
///
/// # Errors
/// None.
pub fn m3u(
    app: &App,
    cx: &Context,
    _auth: PartnerAuth,
    request: &M3uRequest,
) -> Result<Reply, ApiError> {
    let base = format!("{}/api/schedule/v1", app.http.public_url);
    let token = encoded(&request.access_token);
    let country = cx.country(app.places.as_deref());
    let snapshot = app.catalog.snapshot();
    let entries = snapshot.livestreams().filter_map(|livestream| {
        let open = app
            .rights
            .open_to_all(&livestream.id, country, cx.now, WATCHED_MOST);
        // What is on now may be withheld and the next program not.
        matches!(open, Ok(_) | Err(Denied::NoLiveRights)).then_some(())?;
        let mut manifests = MANIFESTS.iter();
        let (_, manifest) = manifests.find(|(one, _)| place(livestream, *one).is_some())?;
        let id = encoded(livestream.id.as_str());
        let address = format!("{base}/m3u/{id}/{manifest}?accessToken={token}");
        Some((&**livestream, address))
    });
    let guide = format!("{base}/xmltv?accessToken={token}");
    let list = m3u::list(&guide, entries);
    let kept = Kept {
        tag: Kept::tag_of(list.as_bytes()),
        max_age: app.config.schedule.max_age,
    };
    Ok(Reply::prepared(Prepared {
        media: media::M3U,
        body: Arc::new(list.into()),
        kept,
        until: None,
    }))
}

/// Sends a player of the list on to the manifest of a livestream.
///
/// Decision: an address of the built-in origin is signed until the next program without live rights
/// begins, the offer ends or twelve hours have passed; there is no session whose heartbeat could
/// stop it.
///
/// # Errors
/// Those of an entitlement that need no user; `PROTOCOL_NOT_AVAILABLE`.
pub fn watch(
    app: &App,
    cx: &Context,
    _auth: PartnerAuth,
    request: PlaylistRedirectRequest,
) -> Result<Reply, ApiError> {
    let country = cx.country(app.places.as_deref());
    let open = app
        .rights
        .open_to_all(&request.livestream, country, cx.now, WATCHED_MOST)?;
    let place = place(&open.livestream, request.protocol);
    let address = match place.ok_or(PlaybackError::ProtocolNotAvailable)? {
        Place::Origin(path) => {
            let address = app.playback.origin_address(&path, open.until, cx.now);
            format!("{}{address}", app.http.public_url)
        }
        Place::Address(address) => address,
    };
    let address = HeaderValue::from_str(&address).map_err(ApiError::internal)?;
    Ok(Reply::no_content()
        .with_status(StatusCode::FOUND)
        .with_header(LOCATION, address)
        .with_header(CACHE_CONTROL, HeaderValue::from_static("no-store")))
}

/// A manifest that can be reached without a session.
enum Place {
    Origin(MediaPath),
    Address(String),
}

/// Where the manifest of a livestream is; none where the address has placeholders, which a session
/// fills in.
fn place(livestream: &Arc<Livestream>, protocol: Protocol) -> Option<Place> {
    match livestream.playlist.location(protocol)? {
        Location::Origin(path) => MediaPath::parse(path).map(Place::Origin),
        Location::Loop(path) => {
            loop_channel::manifest(path, ManifestRange::Live).map(Place::Origin)
        }
        Location::Address(address) if address.contains('{') => None,
        Location::Address(address) => Some(Place::Address(address.to_owned())),
    }
}
