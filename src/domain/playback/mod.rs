//! Playback: entitlement tokens and unlocks, preflight, sessions and heartbeats, devices, licenses
//! and signed playlist addresses.
//!
//! Whether a user has a right is decided elsewhere; this module keeps what was decided, counts
//! streams and devices, and judges a running session by the program that it shows. What it asks of
//! the other domains stands in [`context::PlaybackContext`].
//!
//! # States
//!
//! An entitlement is a token and what it stands for; a session is a stream. What moves either stands
//! on the arrows; what does not move it (an answer 403 `PIN_CODE_REQUIRED` or 552, a refused
//! preflight, a license) stands nowhere.
//!
//! ```text
//! entitlement, with the PIN where one is asked for
//!        |
//!        v                first preflight
//!    unbound ---------------------------------> bound to that device
//!        |                                          |
//!        +--------------------+---------------------+
//!                             v
//!                          worthless: it expires, its offer goes, the account ends,
//!                                     or 512 newer ones were issued
//!
//! preflight, with room for a stream
//!        |                      35 s without a beat
//!        v     +------------------------------------------+
//!      alive --+                                          v
//!        ^ | ^----- a beat, and there is room ---------- idle
//!        | |                                              | 300 s more
//!  beats +-+                                              v
//!        |                                              over: tells SESSION_ENDED (expired)
//!        |                                              |
//!        v                                              v a sweep
//!      ended, with the first reason:                  ended: expired
//!        stopped    its player's DELETE
//!        replaced   a preflight on the same device (clients are told `displaced`)
//!        displaced  a preflight elsewhere, without room, under `displace`
//!        revoked    the user, an operator, a new password by mail, the end of the right
//!        signed_out its user logged out
//!        erased     its user's account was erased
//!        |
//!        v an hour later
//!      forgotten: tells SESSION_NOT_FOUND
//! ```
//!
//! A preflight on the device of a session that plays the same asset hands the unlocks of that session
//! over to the new one: a fallback to another DRM system or a retry asks for no second PIN.
//!
//! An idle session holds no slot, and ends by the same reasons. A restart makes each session that
//! has not ended alive again, for 35 s from readiness, and moves no other. `tests/walk.rs` walks the
//! diagram at random, beside a model that is nothing else.

pub mod context;
pub mod entitlement_token;
pub mod error;
mod granted;
pub mod heartbeat;
pub mod license_challenge;
pub mod lifecycle;
pub mod model;
pub mod playability;
pub mod playlist_url;
pub mod preflight;
pub mod session;
pub mod signing;
pub mod stream_limits;
pub mod tables;
pub mod token_map;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::domain::clock_guard::ExpiryClock;
use crate::ports::Entropy;
use crate::store::{Store, StoreError};
use crate::types::{Drm, MediaPath, SessionId, UnixSeconds};

pub use context::{PlaybackContext, Viewer};
pub use entitlement_token::{GrantedRight, Issuable, Issued, PinCheck, PinRequired};
pub use error::{BlockingSession, PlaybackError};
pub use heartbeat::{Heartbeat, HeartbeatOutcome, LicenseRequest};
pub use lifecycle::Export;
pub use model::{Device, EndReason, Playing, Registered, SessionView};
pub use playability::Playability;
pub use playlist_url::{ORIGIN_PATH, Playlist};
pub use preflight::{Start, Started};
pub use session::{Beat, BeatRate, Session};
pub use signing::{CdnScheme, Key, Scheme, Signing};
pub use stream_limits::WhenFull;
pub use tables::{erase, schema};

use session::{EndedMap, SessionMap};
use token_map::TokenMap;

/// What an operator decides about playback.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Streams of one user in all.
    pub streams_total: u32,
    /// Streams of one user of the same asset, where the channel says nothing else.
    pub streams_per_asset: u32,
    /// Devices of one user.
    pub devices: usize,
    /// What happens to a start that finds all slots taken.
    pub when_full: WhenFull,
    /// Whether Clear Key is offered.
    pub clearkey: bool,
    /// The systems that have a license server.
    pub license_servers: Vec<Drm>,
    /// How long an entitlement is good, in seconds.
    pub token_life: i64,
    /// How often a session may beat.
    pub beats: BeatRate,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            streams_total: 3,
            streams_per_asset: 3,
            devices: 5,
            when_full: WhenFull::Deny,
            clearkey: false,
            license_servers: Vec::new(),
            token_life: crate::types::time::DAY,
            beats: BeatRate {
                per_second: 2,
                burst: 10,
            },
        }
    }
}

impl Settings {
    /// Whether a system needs no license, or somebody gives its licenses out.
    fn has_licenses(&self, drm: Drm) -> bool {
        match drm {
            Drm::None => true,
            Drm::Clearkey => self.clearkey,
            Drm::Widevine | Drm::Playready | Drm::Fairplay => self.license_servers.contains(&drm),
        }
    }
}

/// The service.
#[derive(Clone)]
pub struct Playback {
    store: Store,
    entropy: Arc<dyn Entropy>,
    settings: Arc<Settings>,
    world: Arc<dyn PlaybackContext>,
    signing: Arc<Signing>,
    /// Judges the expiry of entitlements and addresses, and how long sessions live: what they store
    /// is in token time.
    expiry: Arc<ExpiryClock>,
    tokens: Arc<TokenMap>,
    sessions: Arc<SessionMap>,
    ended: Arc<EndedMap>,
}

impl Playback {
    /// Reads what the store has. Call [`Playback::refresh`] when the service is ready.
    ///
    /// # Errors
    /// That the store failed.
    pub fn open(
        store: &Store,
        entropy: Arc<dyn Entropy>,
        settings: Settings,
        signing: Signing,
        world: Arc<dyn PlaybackContext>,
        expiry: Arc<ExpiryClock>,
    ) -> Result<Self, StoreError> {
        let playback = Self {
            store: store.clone(),
            entropy,
            settings: Arc::new(settings),
            world,
            signing: Arc::new(signing),
            expiry,
            tokens: Arc::default(),
            sessions: Arc::default(),
            ended: Arc::default(),
        };
        store.attach::<tables::Entitlements>(playback.tokens.clone())?;
        store.attach::<tables::EndedSessions>(playback.ended.clone())?;
        store.attach::<tables::Sessions>(playback.sessions.clone())?;
        Ok(playback)
    }

    /// Whether the signed address of a media file is good.
    #[must_use]
    pub fn origin_allows(&self, token: &str, path: &MediaPath, now: UnixSeconds) -> bool {
        let at = self.expiry.at(now);
        self.signing.origin.allows(token, path, at)
    }

    /// Whether a preflight may compute so long that it must not run on a thread that serves others.
    #[must_use]
    pub fn signs_slowly(&self) -> bool {
        self.signing.is_slow()
    }

    /// The session of an id, or how it ended.
    fn find(&self, id: Option<&SessionId>) -> Result<Arc<Session>, PlaybackError> {
        let id = id.ok_or(PlaybackError::SessionNotFound)?;
        if let Some(session) = self.sessions.get(id) {
            return Ok(session);
        }
        Err(match self.ended.reason(id) {
            Some(reason) => PlaybackError::SessionEnded(reason),
            None => PlaybackError::SessionNotFound,
        })
    }
}
