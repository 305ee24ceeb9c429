//! Playback: entitlement tokens and unlocks, preflight, sessions and heartbeats, devices, licenses
//! and signed playlist addresses.
//!
//! `domain::entitlement` decides what a user may play. This module issues tokens for its decisions, counts streams and
//! devices, and checks a running session against the program that it shows. It reaches other domains only through
//! [`context::PlaybackContext`].
//!
//! # States
//!
//! An entitlement is a token and its record; a session is a stream. Only transitions are shown: an
//! answer 403 `PIN_CODE_REQUIRED` or 552, a refused
//! preflight and a license change no state.
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
//!        |                                              over: answers SESSION_ENDED (expired)
//!        |                                              |
//!        v                                              v a sweep
//!      ended, with the first reason:                  ended: expired
//!        stopped    its player's DELETE
//!        replaced   a preflight on the same device (clients get `displaced`)
//!        displaced  a preflight elsewhere, without room, under `displace`
//!        revoked    the user, an operator, a new password by mail, the end of the right
//!        signed_out its user logged out
//!        erased     its user's account was erased
//!        |
//!        v an hour later
//!      forgotten: answers SESSION_NOT_FOUND
//! ```
//!
//! A preflight on the device of a session that plays the same asset hands the unlocks of that session
//! over to the new one: a fallback to another DRM system or a retry does not ask for a second PIN.
//!
//! An idle session holds no slot and can end for the same reasons. A restart makes each session that
//! has not ended alive again, for 35 s from readiness, and changes no other. `tests/walk.rs` walks
//! the diagram at random and compares it with a model of the diagram.

pub mod context;
pub(crate) mod entitlement_token;
pub(crate) mod error;
mod explain;
pub(crate) mod heartbeat;
mod left_sessions;
mod license;
pub mod license_challenge;
pub(crate) mod lifecycle;
pub mod model;
pub(crate) mod playability;
pub(crate) mod playlist_url;
pub(crate) mod preflight;
mod relay;
pub mod revocation;
pub mod session;
mod session_map;
mod session_rate;
pub(crate) mod signing;
pub(crate) mod stream_limits;
pub(crate) mod tables;

#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use crate::clock_guard::ExpiryClock;
use playgate_ports::Entropy;
use playgate_store::{Store, StoreError};
use playgate_types::{AssetId, Drm, MediaPath, SessionId, UnixSeconds, UserId};

pub use context::{PlaybackContext, Viewer};
pub use entitlement_token::{GrantedRight, Issuable, Issued, PinCheck, PinRequired};
pub use error::{BlockingSession, PlaybackError};
pub use heartbeat::{Heartbeat, HeartbeatOutcome};
pub use license::LicenseAttempt;
pub use lifecycle::PlaybackData;
pub use model::{Device, EndReason, Registered, RequestTime, SessionView};
pub use playability::Playability;
pub use playlist_url::{ORIGIN_PATH, Playlist};
pub use preflight::{Start, Started};
pub use session::{Beat, Session};
pub use session_rate::BeatRate;
pub(crate) use signing::OriginAccess;
pub use signing::{CdnScheme, Scheme, Signing, SigningKey};
pub use stream_limits::WhenFull;
pub use tables::schema;

use entitlement_token::TokenMap;
use session_map::{EndedMap, SessionMap};

#[derive(Clone, Debug)]
pub struct PlaybackSettings {
    pub streams_total: u32,
    /// Per user and asset, unless the channel sets a limit.
    pub streams_per_asset: u32,
    pub devices: usize,
    pub when_full: WhenFull,
    pub clearkey: bool,
    pub license_servers: Vec<Drm>,
    /// Seconds.
    pub token_life: i64,
    pub beats: BeatRate,
}

impl Default for PlaybackSettings {
    fn default() -> Self {
        Self {
            streams_total: 3,
            streams_per_asset: 3,
            devices: 5,
            when_full: WhenFull::Deny,
            clearkey: false,
            license_servers: Vec::new(),
            token_life: playgate_types::time::DAY,
            beats: BeatRate {
                per_second: 2,
                burst: 10,
            },
        }
    }
}

impl PlaybackSettings {
    /// The limit of streams of one asset. `streams` is the limit of its channel, if that has one.
    fn limit_here(&self, streams: Option<u32>) -> u32 {
        let streams = streams.unwrap_or(self.streams_per_asset);
        streams.min(self.streams_total)
    }

    fn has_licenses(&self, drm: Drm) -> bool {
        match drm {
            Drm::None => true,
            Drm::Clearkey => self.clearkey,
            Drm::Widevine | Drm::Playready | Drm::Fairplay => self.license_servers.contains(&drm),
        }
    }
}

/// Receives heartbeats and ends of sessions. Calls must not block: heartbeats and the writer thread make them.
pub trait SessionObserver: Send + Sync {
    fn beat(&self, user: &UserId, session: SessionId, at: UnixSeconds, position: i64, bitrate: u64);

    /// `stopped`: ended by its player.
    fn ended(&self, user: &UserId, session: SessionId, at: UnixSeconds, stopped: bool);
}

/// By then a session that the owner of a fleet has opened is known at every member.
const REPLICATION_SECONDS: i64 = 60;

/// Set once, after the services are opened.
type Observer = Arc<OnceLock<Arc<dyn SessionObserver>>>;

#[derive(Clone)]
pub struct Playback {
    store: Store,
    entropy: Arc<dyn Entropy>,
    settings: Arc<PlaybackSettings>,
    context: Arc<dyn PlaybackContext>,
    signing: Arc<Signing>,
    /// Maps wall time to token time. Stored expiry times and session liveness are in token time.
    expiry: Arc<ExpiryClock>,
    tokens: Arc<TokenMap>,
    sessions: Arc<SessionMap>,
    ended: Arc<EndedMap>,
    observer: Observer,
}

impl Playback {
    /// [`Playback::refresh`] must be called when the service is ready.
    pub fn open(
        store: &Store,
        entropy: Arc<dyn Entropy>,
        settings: PlaybackSettings,
        signing: Signing,
        context: Arc<dyn PlaybackContext>,
        expiry: Arc<ExpiryClock>,
    ) -> Result<Self, StoreError> {
        let observer = Observer::default();
        let playback = Self {
            store: store.clone(),
            entropy,
            settings: Arc::new(settings),
            context,
            signing: Arc::new(signing),
            expiry,
            tokens: Arc::default(),
            sessions: Arc::default(),
            ended: Arc::new(EndedMap::new(Arc::clone(&observer))),
            observer,
        };
        // Ended sessions before running ones, so that no session is in neither map.
        store.attach::<tables::Entitlements>(playback.tokens.clone())?;
        store.attach::<tables::EndedSessions>(playback.ended.clone())?;
        store.attach::<tables::Sessions>(playback.sessions.clone())?;
        Ok(playback)
    }

    /// Sets the observer, and reports the ends of the last hour to it. Only the first call has an effect.
    pub fn observe(&self, observer: Arc<dyn SessionObserver>) {
        // Set first: an end in between is reported twice, which does no harm, and not missed.
        if self.observer.set(Arc::clone(&observer)).is_ok() {
            self.ended.report_all(&*observer);
        }
    }

    pub fn for_each_session(&self, mut each: impl FnMut(&Session)) {
        self.sessions.for_each(|session| each(session));
    }

    /// Returns the running session that a [`Started::report_token`] names. An error ends the reports.
    pub fn reported_session(
        &self,
        token: &str,
        now: UnixSeconds,
    ) -> Result<Arc<Session>, PlaybackError> {
        let id = self.signing.reports.session(token, self.expiry.at(now));
        self.find(id.as_ref())
    }

    /// Returns the session of a report that comes after its end: what it says of the time before still counts.
    pub fn session_left(
        &self,
        token: &str,
        error: &PlaybackError,
        now: UnixSeconds,
    ) -> Option<Arc<Session>> {
        // Nothing is stored for an account that is gone.
        if matches!(error, PlaybackError::SessionEnded(EndReason::Erased)) {
            return None;
        }
        let id = self.signing.reports.session(token, self.expiry.at(now))?;
        self.sessions.left.find(&id)
    }

    pub fn session(&self, id: &SessionId) -> Option<Arc<Session>> {
        self.sessions.get(id)
    }

    /// Returns what a session of the user plays, or played.
    pub fn asset_of(&self, session: &SessionId, user: &UserId) -> Option<AssetId> {
        let found = self.sessions.get(session);
        let session = found.or_else(|| self.sessions.left.find(session))?;
        (session.user == *user).then(|| session.start.asset.clone())
    }

    /// `None` if the token does not allow the file at this time. The error says how its session ended.
    pub fn origin_access(
        &self,
        token: &str,
        path: &MediaPath,
        now: UnixSeconds,
    ) -> Result<Option<OriginAccess>, PlaybackError> {
        let at = self.expiry.at(now);
        let Some(access) = self.signing.origin.access(token, path, at) else {
            return Ok(None);
        };
        let Some((session, began)) = &access.session else {
            return Ok(Some(access));
        };
        match self.find(Some(session)) {
            Ok(_) => Ok(Some(access)),
            Err(PlaybackError::SessionEnded(reason)) => Err(PlaybackError::SessionEnded(reason)),
            // A standby of a fleet learns of a session shortly after the owner has answered.
            Err(_) if at.since(*began) < REPLICATION_SECONDS => Ok(Some(access)),
            Err(_) => Ok(None),
        }
    }

    /// Whether signing takes too long for an async worker thread, where it would delay other requests.
    pub fn signs_slowly(&self) -> bool {
        self.signing.is_slow()
    }

    /// The error says how the session ended.
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
