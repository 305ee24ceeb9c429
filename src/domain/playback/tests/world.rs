//! A fake of the other domains: the livestreams `news` and `never` with a list of programs, films by name.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::entitlement::PositionRights;
use crate::playback::context::{
    AssetDelivery, Playable, PlaybackContext, PlayedProgram, ProgramAtPosition, Viewer,
};
use playgate_store::Txn;
use playgate_types::{AssetId, BroadcastId, LivestreamId, Protocol, UnixSeconds, UserId};

#[derive(Default)]
pub(super) struct Small {
    /// The programs of `news` and `never`.
    pub(super) programs: Mutex<Vec<Broadcast>>,
    /// Broadcasts and films that need a PIN.
    pub(super) pins: Mutex<HashSet<String>>,
    pub(super) erased: AtomicBool,
    /// Whether every offer has been revoked.
    pub(super) revoked: AtomicBool,
}

/// Catch-up window of programs, in seconds.
pub(super) const CATCHUP: i64 = 7 * 86_400;
/// The key id and key of encrypted films.
pub(super) const KEY: ([u8; 16], [u8; 16]) = ([0xaa; 16], [0xbb; 16]);

#[derive(Clone)]
pub(super) struct Broadcast {
    pub(super) id: &'static str,
    pub(super) start: UnixSeconds,
    pub(super) rights: PositionRights,
}

/// A program with live, rewind and one week of catch-up rights.
pub(super) fn program(id: &'static str, start: UnixSeconds, stop: UnixSeconds) -> Broadcast {
    Broadcast {
        id,
        start,
        rights: PositionRights {
            stop,
            live: true,
            start_over: false,
            rewind: true,
            catchup: Some((stop, stop + CATCHUP)),
            live_by_default: true,
        },
    }
}

impl Broadcast {
    fn shown(&self) -> ProgramAtPosition {
        ProgramAtPosition {
            program: Some(PlayedProgram {
                id: BroadcastId::parse(self.id).unwrap(),
                start: self.start,
                pg_age: None,
            }),
            rights: self.rights,
        }
    }
}

impl PlaybackContext for Small {
    /// All other livestreams are in a gap of the schedule; only `gone` is not in the catalogue.
    fn program_at(&self, livestream: &LivestreamId, at: UnixSeconds) -> Option<ProgramAtPosition> {
        let live_by_default = livestream.as_str() != "never";
        let gap = ProgramAtPosition {
            program: None,
            rights: program("gap", at, at + 1).rights,
        };
        let programs = self.programs.lock();
        let found = programs
            .iter()
            .find(|one| one.start <= at && at < one.rights.stop);
        let mut shown = found.map_or(gap, Broadcast::shown);
        shown.rights.live_by_default = live_by_default;
        (livestream.as_str() != "gone").then_some(shown)
    }

    fn broadcast(&self, id: &BroadcastId) -> Option<ProgramAtPosition> {
        let programs = self.programs.lock();
        let found = programs.iter().find(|one| one.id == id.as_str());
        found.map(Broadcast::shown)
    }

    fn program_needs_pin(&self, _: &UserId, _: &LivestreamId, program: &PlayedProgram) -> bool {
        self.pins.lock().contains(program.id.as_str())
    }

    fn vod_needs_pin(&self, _: &UserId, asset: &AssetId) -> bool {
        self.pins.lock().contains(asset.as_str())
    }

    fn name(&self, _: &AssetId) -> Option<String> {
        None
    }

    fn playlists(&self, asset: &AssetId) -> Option<AssetDelivery> {
        let known = self.playable(asset, Protocol::Dash)?;
        Some(AssetDelivery {
            encrypted: known.encrypted,
            protocols: vec![Protocol::Dash, Protocol::Hls],
        })
    }

    fn playable(&self, asset: &AssetId, protocol: Protocol) -> Option<Playable> {
        let encrypted = asset.as_str() != "film-clear";
        let streams = (asset.as_str() == "news-2").then_some(2);
        let address = match (asset.as_str(), protocol.family()) {
            ("film-gone", _) => return None,
            ("film-https", Protocol::Dash) => Some("https://cdn.example/{asset}.mpd".to_owned()),
            (_, Protocol::Dash) => Some("origin:loop/news.mpd".to_owned()),
            (_, Protocol::Hls) => Some("http://cdn.example/x.m3u8".to_owned()),
            _ => None,
        };
        Some(Playable {
            encrypted,
            streams,
            address,
        })
    }

    fn still_entitled(&self, _: &Viewer, _: &AssetId, _: UnixSeconds) -> bool {
        !self.revoked.load(Ordering::Relaxed)
    }

    fn key_ids(&self, asset: &AssetId) -> Vec<[u8; 16]> {
        let known = self.content_key(asset, &KEY.0);
        known.map(|_| KEY.0).into_iter().collect()
    }

    fn content_key(&self, asset: &AssetId, kid: &[u8; 16]) -> Option<[u8; 16]> {
        (asset.as_str() == "film" && *kid == KEY.0).then_some(KEY.1)
    }

    fn exists(&self, _: &Txn<'_>, _: &UserId) -> bool {
        !self.erased.load(Ordering::Relaxed)
    }
}
