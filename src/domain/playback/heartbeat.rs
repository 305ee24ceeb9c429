//! Heartbeats and licenses: what a running session may do at its playing position.
//!
//! A heartbeat reads and writes memory alone, and takes no lock that all share.

use std::sync::Arc;

use crate::store::{Commit, Durability, WritePriority};
use crate::types::{AssetId, Drm, LivestreamId, SessionId, TokenHash, UnixSeconds, UserId};

use super::Playback;
use super::context::Shown;
use super::error::PlaybackError;
use super::model::{EndReason, Playing};
use super::session::{Beat, Liveness, Session};
use super::stream_limits::{self, StreamRequest, WhenFull};
use crate::domain::entitlement::{Withheld, judged_position};

/// How long a player has to bring a PIN after a program has begun.
const PIN_GRACE: i64 = 30;
/// How far a catch-up stream may run over the ends of its broadcast: recordings are padded.
const PADDING: i64 = 60;
/// Media positions from here on are milliseconds: as seconds they lie 3,000 years ahead.
const MILLISECONDS: u64 = 100_000_000_000;

/// A heartbeat, its headers read.
#[derive(Clone, Copy, Debug)]
pub struct Heartbeat<'a> {
    /// The user of the token.
    pub user: &'a UserId,
    /// `Service-Play-Session`, if it has the form of a session id.
    pub session: Option<SessionId>,
    /// `Service-Play-EntitlementId`, if it has the form of an entitlement token.
    pub token: Option<TokenHash>,
    /// `Service-Play-DeviceId`.
    pub device: &'a str,
    /// The rest; the position as it was sent.
    pub beat: Beat,
}

/// How a heartbeat was taken.
pub enum HeartbeatOutcome {
    /// The session lives on.
    Counted,
    /// The session had lost its slot, and asks for it again.
    Reviving(Commit<(), PlaybackError>),
}

/// A license request, as far as it can be read.
#[derive(Clone, Copy, Debug)]
pub struct LicenseRequest<'a> {
    /// The user of the token.
    pub user: &'a UserId,
    /// `Service-Play-Session`, if it has the form of a session id.
    pub session: Option<SessionId>,
    /// `Service-Play-EntitlementId`, if it has the form of an entitlement token.
    pub token: Option<TokenHash>,
    /// `Service-Play-DeviceId`, which players that know only the header map do not send.
    pub device: Option<&'a str>,
    /// The system of the path.
    pub drm: Drm,
    /// The key ids that are asked for.
    pub kids: &'a [[u8; 16]],
}

/// Whether a PIN may still be on its way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Grace {
    /// A program may have begun just now.
    Allowed,
    /// What was entitled as a whole must be unlocked before its keys are given.
    OnlyLive,
}

impl Playback {
    /// Counts a beat and judges the program at the playing position. The order of the refusals is
    /// that of the decisions. A session that is refused for its program stays open.
    ///
    /// # Errors
    /// Those of the heartbeat in [`PlaybackError`].
    pub fn heartbeat(
        &self,
        heartbeat: &Heartbeat<'_>,
        now: UnixSeconds,
    ) -> Result<HeartbeatOutcome, PlaybackError> {
        let at = self.expiry.at(now);
        let session = self.find(heartbeat.session.as_ref())?;
        let own = session.user == *heartbeat.user;
        // Another user's beats must not use up the session's rate.
        if own && !session.admit(self.settings.beats, at) {
            return Err(PlaybackError::TooManyBeats(self.settings.beats.reached()));
        }
        if session.liveness(at) == Liveness::Over {
            return Err(PlaybackError::SessionEnded(EndReason::Expired));
        }
        let held = heartbeat
            .token
            .and_then(|hash| self.tokens.get(&hash))
            .filter(|held| held.user == *heartbeat.user)
            .ok_or(PlaybackError::EntitlementInvalid)?;
        if !held.entitlement.holds(at) {
            return Err(PlaybackError::EntitlementExpired);
        }
        let bound = |device: &crate::types::DeviceId| device.as_str() == heartbeat.device;
        let matches = own
            && held.entitlement.asset == session.start.asset
            && held.entitlement.device.as_ref().is_none_or(bound)
            && bound(&session.start.device.id);
        if !matches {
            return Err(PlaybackError::SessionMismatch);
        }
        let mut beat = heartbeat.beat;
        if beat.position.unsigned_abs() >= MILLISECONDS {
            beat.position /= 1_000;
        }
        session.record(&beat, now);
        let judged = self.check_program(&session, Grace::Allowed, now);
        if session.record_beat(at) {
            return judged.map(|()| HeartbeatOutcome::Counted);
        }
        Ok(HeartbeatOutcome::Reviving(self.revive(session, judged, at)))
    }

    /// Gives an idle session its slot back if it is free; `at` is in token time.
    fn revive(
        &self,
        session: Arc<Session>,
        judged: Result<(), PlaybackError>,
        at: UnixSeconds,
    ) -> Commit<(), PlaybackError> {
        let memory = Arc::clone(&self.sessions);
        let start = &session.start;
        let streams = self
            .world
            .playable(&start.asset, start.protocol)
            .and_then(|found| found.streams);
        let total = self.settings.streams_total;
        let here = streams
            .unwrap_or(self.settings.streams_per_asset)
            .min(total);
        self.store
            .write_for(WritePriority::Login, Durability::Logged, move |txn| {
                let ended = PlaybackError::SessionEnded(EndReason::Expired);
                if memory.get(&session.id).is_none() {
                    return Err(ended);
                }
                let sessions = stream_limits::sessions_of(txn, session.user)?;
                // A plan of the same group may have ended it.
                if !sessions.iter().any(|(id, _)| *id == session.id) {
                    return Err(ended);
                }
                let wanted = StreamRequest {
                    device: &session.start.device.id,
                    place: stream_limits::place(&session.start.playing, &session.start.asset),
                    total,
                    here,
                };
                match stream_limits::select_evictions(
                    &sessions,
                    &memory,
                    &wanted,
                    WhenFull::Deny,
                    at,
                ) {
                    Ok(_) => session.revive(at),
                    Err(PlaybackError::StreamLimitReached(_)) => return Err(ended),
                    Err(other) => return Err(other),
                }
                judged
            })
    }

    /// Checks what a license rests on.
    ///
    /// Decision: what needs a PIN that this session has not given gets no license, so that a token
    /// which has passed its unlock on to one session opens no second one.
    ///
    /// # Errors
    /// Those of the license in [`PlaybackError`].
    pub fn license(
        &self,
        request: &LicenseRequest<'_>,
        now: UnixSeconds,
    ) -> Result<Arc<Session>, PlaybackError> {
        let at = self.expiry.at(now);
        let session = self.find(request.session.as_ref())?;
        if session.liveness(at) == Liveness::Over {
            return Err(PlaybackError::SessionEnded(EndReason::Expired));
        }
        let device = &session.start.device.id;
        let entitlement = request
            .token
            .and_then(|hash| self.tokens.get(&hash))
            .filter(|held| held.entitlement.holds(at));
        let valid = entitlement.is_some_and(|held| {
            held.user == *request.user
                && held.entitlement.asset == session.start.asset
                && held
                    .entitlement
                    .device
                    .as_ref()
                    .is_none_or(|bound| bound == device)
        });
        let own = session.user == *request.user
            && request.device.is_none_or(|sent| sent == device.as_str());
        if !valid || !own {
            return Err(PlaybackError::EntitlementInvalid);
        }
        let asset = &session.start.asset;
        let keys = self.world.key_ids(asset);
        if !request.kids.iter().all(|kid| keys.contains(kid)) {
            return Err(PlaybackError::KeyNotAllowed);
        }
        if session.start.drm != request.drm {
            return Err(PlaybackError::DrmMismatch);
        }
        self.check_program(&session, Grace::OnlyLive, now)?;
        Ok(session)
    }

    /// The key ids that the asset lists.
    #[must_use]
    pub fn key_ids(&self, asset: &AssetId) -> Vec<[u8; 16]> {
        self.world.key_ids(asset)
    }

    /// The keys of key ids that [`Playback::license`] has let pass.
    ///
    /// # Errors
    /// [`PlaybackError::KeyNotAllowed`] if the catalogue has changed under the request.
    pub fn clear_keys(
        &self,
        asset: &AssetId,
        kids: &[[u8; 16]],
    ) -> Result<Vec<([u8; 16], [u8; 16])>, PlaybackError> {
        kids.iter()
            .map(|kid| Some((*kid, self.world.content_key(asset, kid)?)))
            .collect::<Option<Vec<_>>>()
            .ok_or(PlaybackError::KeyNotAllowed)
    }

    /// Rights and PIN at the playing position.
    fn check_program(
        &self,
        session: &Session,
        grace: Grace,
        now: UnixSeconds,
    ) -> Result<(), PlaybackError> {
        let position = session.position(now);
        match &session.start.playing {
            Playing::Vod => {
                let asset = &session.start.asset;
                let late = !self.in_grace(session, grace, now);
                let locked = || {
                    !session.unlocked(asset.as_str())
                        && self.world.vod_needs_pin(&session.user, asset)
                };
                match late && locked() {
                    true => Err(PlaybackError::PinCodeRequired),
                    false => Ok(()),
                }
            }
            Playing::Live { livestream, .. } => {
                let at = position.map_or(now, |position| judged_position(position, now));
                self.judge_livestream(session, livestream, at, now)
            }
            Playing::Catchup {
                livestream,
                broadcast,
                start,
                stop,
            } => {
                let own = |at: &UnixSeconds| *start - PADDING <= *at && *at < *stop + PADDING;
                let at = match position {
                    Some(at) if own(&at) => at.min(*stop - 1).max(*start),
                    Some(at) if judged_position(at, now) == at => {
                        return self.judge_livestream(session, livestream, at, now);
                    }
                    // No position yet, or one of a player that counts from its start.
                    Some(_) | None => *start,
                };
                match self.world.broadcast(broadcast) {
                    Some(shown) => {
                        let late = !self.in_grace(session, grace, now);
                        self.judge_shown(session, livestream, &shown, (at, late), now)
                    }
                    // The guide has forgotten it; the entitlement's expiry remains.
                    None => Ok(()),
                }
            }
        }
    }

    fn judge_livestream(
        &self,
        session: &Session,
        livestream: &LivestreamId,
        at: UnixSeconds,
        now: UnixSeconds,
    ) -> Result<(), PlaybackError> {
        let shown = self.world.shown_at(livestream, at);
        // A livestream that has left the catalogue has no rights to be watched by.
        let shown = shown.ok_or(PlaybackError::NotAvailable)?;
        let start = shown.program.as_ref().map(|program| program.start);
        let late = start.is_some_and(|start| at.since(start) >= PIN_GRACE);
        self.judge_shown(session, livestream, &shown, (at, late), now)
    }

    /// `late` says that a PIN which the program needs should have been given by now.
    fn judge_shown(
        &self,
        session: &Session,
        livestream: &LivestreamId,
        shown: &Shown,
        (at, late): (UnixSeconds, bool),
        now: UnixSeconds,
    ) -> Result<(), PlaybackError> {
        shown.rights.check(at, now)?;
        let locked = shown.program.as_ref().is_some_and(|program| {
            late && !session.unlocked(program.id.as_str())
                && self
                    .world
                    .program_needs_pin(&session.user, livestream, program)
        });
        match locked {
            true => Err(PlaybackError::PinCodeRequired),
            false => Ok(()),
        }
    }

    /// What is entitled as a whole begins with its session.
    fn in_grace(&self, session: &Session, grace: Grace, now: UnixSeconds) -> bool {
        grace == Grace::Allowed && now.since(session.start.since) < PIN_GRACE
    }
}

impl From<Withheld> for PlaybackError {
    fn from(withheld: Withheld) -> Self {
        match withheld {
            Withheld::NoLiveRights { by_default } => Self::NoLiveRights { by_default },
            Withheld::NotAvailable => Self::NotAvailable,
        }
    }
}
