//! A world of a few lines: the channel `news` from a list of programs, films by name.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::domain::playback::world::{Channel, Playable, Program, Viewer, World};
use crate::store::{StoreError, Txn};
use crate::types::{AssetId, BroadcastId, LivestreamId, Protocol, UnixSeconds, UserId};

/// The world of the tests.
#[derive(Default)]
pub(super) struct Small {
    /// What `news` shows.
    pub(super) programs: Mutex<Vec<Program>>,
    /// Broadcasts and films that need a PIN.
    pub(super) pins: Mutex<HashSet<String>>,
    /// Whether `news` has no catch-up.
    pub(super) only_live: AtomicBool,
    /// Whether every account has been erased.
    pub(super) erased: AtomicBool,
    /// Whether every offer has been taken away.
    pub(super) revoked: AtomicBool,
}

/// The catch-up of `news`, in seconds.
pub(super) const CATCHUP: i64 = 7 * 86_400;
/// The key id and key of encrypted films.
pub(super) const KEY: ([u8; 16], [u8; 16]) = ([0xaa; 16], [0xbb; 16]);

pub(super) fn program(id: &str, start: UnixSeconds, stop: UnixSeconds) -> Program {
    Program {
        id: BroadcastId::parse(id).unwrap(),
        start,
        stop,
        live: true,
        catchup: Some((stop, stop + CATCHUP)),
        pg_age: None,
    }
}

impl World for Small {
    fn channel(&self, livestream: &LivestreamId) -> Option<Channel> {
        (livestream.as_str() == "news").then_some(Channel {
            live_rights: true,
            catchup: if self.only_live.load(Ordering::Relaxed) {
                0
            } else {
                CATCHUP
            },
        })
    }

    fn program_at(&self, _: &LivestreamId, at: UnixSeconds) -> Option<Program> {
        let programs = self.programs.lock();
        programs
            .iter()
            .find(|p| p.start <= at && at < p.stop)
            .cloned()
    }

    fn program(&self, id: &BroadcastId) -> Option<Program> {
        self.programs.lock().iter().find(|p| p.id == *id).cloned()
    }

    fn program_needs_pin(&self, _: &UserId, _: &LivestreamId, program: &Program) -> bool {
        self.pins.lock().contains(program.id.as_str())
    }

    fn vod_needs_pin(&self, _: &UserId, asset: &AssetId) -> bool {
        self.pins.lock().contains(asset.as_str())
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

    fn exists(&self, _: &Txn<'_>, _: &UserId) -> Result<bool, StoreError> {
        Ok(!self.erased.load(Ordering::Relaxed))
    }
}
