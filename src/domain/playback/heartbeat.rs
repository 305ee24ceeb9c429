//! Heartbeats and licenses: checks what a running session may do at its playing position.
//!
//! A heartbeat reads and writes memory only, and takes no lock that all sessions share.

use std::sync::Arc;

use playgate_store::{Commit, Durability, WritePriority};
use playgate_types::{LivestreamId, LoginId, SessionId, TokenHash, UnixSeconds, UserId};

use super::Playback;
use super::context::ProgramAtPosition;
use super::error::PlaybackError;
use super::model::{EndReason, PlayedAsset, PlayedBroadcast, RequestTime};
use super::session::{Beat, Liveness, Session};
use super::stream_limits::{self, StreamRequest, WhenFull};
use crate::decision::{DecisionTrace, RightsRefusal};
use crate::entitlement::{Withheld, checked_position};

/// Seconds. A player has this long to bring a PIN after a program began.
const PIN_GRACE: i64 = 30;
/// Seconds by which a catch-up stream may run past the ends of its broadcast: recordings are
/// padded.
const PADDING_SECONDS: i64 = 60;
/// Read as seconds, such positions are 3,000 years in the future.
const MILLISECONDS_FROM: u64 = 100_000_000_000;

#[derive(Clone, Copy, Debug)]
pub struct Heartbeat<'a> {
    pub user: &'a UserId,
    pub login: Option<LoginId>,
    /// `None` if it is not a well-formed session id.
    pub session: Option<SessionId>,
    pub token: Option<TokenHash>,
    pub device: &'a str,
    pub beat: Beat,
    pub trace: &'a DecisionTrace,
}

pub enum HeartbeatOutcome {
    Counted,
    /// The session had lost its slot and asks for it again.
    Reviving(Commit<(), PlaybackError>),
}

/// Whether the PIN may still be missing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Grace {
    /// The PIN may be missing for [`PIN_GRACE`] seconds after a program or session began.
    Allowed,
    /// The same, but on livestreams only: VOD and catch-up must be unlocked before their keys are given.
    OnlyLive,
}

impl Playback {
    /// Records a heartbeat and checks the program at the playing position. Errors take precedence in
    /// the order of the checks. A session that is refused because of its program stays open.
    pub fn heartbeat(
        &self,
        heartbeat: &Heartbeat<'_>,
        time: impl Into<RequestTime>,
    ) -> Result<HeartbeatOutcome, PlaybackError> {
        let (trace, time) = (heartbeat.trace, time.into());
        // The recorded reason of an ended session comes before all other errors.
        let session = self.find(heartbeat.session.as_ref());
        let session = session.inspect_err(|error| refused(error, trace))?;
        let outcome = self.beat(&session, heartbeat, time);
        let unchanged = match &outcome {
            Ok(HeartbeatOutcome::Counted) => !session.answers_otherwise(COUNTED),
            Ok(HeartbeatOutcome::Reviving(_)) => false,
            Err(error) => !session.answers_otherwise(answer_number(error)),
        };
        if unchanged {
            trace.unchanged();
        }
        if let Err(error) = &outcome {
            self.trace_session(&session, trace, time);
            refused(error, trace);
        }
        outcome
    }

    fn beat(
        &self,
        session: &Arc<Session>,
        heartbeat: &Heartbeat<'_>,
        time: RequestTime,
    ) -> Result<HeartbeatOutcome, PlaybackError> {
        let token_now = self.expiry.at(time.server);
        // The order of the checks below is part of the interface.
        let is_same_user = session.user == *heartbeat.user;
        // Heartbeats of another user must not use up the session's rate.
        if is_same_user && !session.admit(self.settings.beats, token_now) {
            return Err(PlaybackError::TooManyBeats(self.settings.beats.reached()));
        }
        if session.liveness(token_now) == Liveness::Over {
            return Err(PlaybackError::SessionEnded(EndReason::Expired));
        }
        let held = heartbeat
            .token
            .and_then(|hash| self.tokens.get(&hash))
            // The token of another user gets the same error as an unknown one.
            .filter(|held| held.user == *heartbeat.user)
            .ok_or(PlaybackError::EntitlementInvalid)?;
        if !held.entitlement.holds(token_now) {
            return Err(PlaybackError::EntitlementExpired);
        }
        let bound = |device: &playgate_types::DeviceId| device.as_str() == heartbeat.device;
        let matches = is_same_user
            && held.entitlement.asset == session.start.asset
            && held.entitlement.device.as_ref().is_none_or(bound)
            // A player that copies another device's headers must not share its slot.
            && bound(&session.start.device.id);
        if !matches {
            return Err(PlaybackError::SessionMismatch);
        }
        if let Some(login) = heartbeat.login {
            session.use_by(login);
        }
        let mut beat = heartbeat.beat;
        if beat.position.unsigned_abs() >= MILLISECONDS_FROM {
            // Some players send milliseconds.
            beat.position /= 1_000;
        }
        // Recorded before the checks, so that operators see a refused player too.
        self.record(session, &beat, time);
        let checked = self.check_program(session, Grace::Allowed, heartbeat.trace, time);
        // A session without a slot gets it back only through a transaction, which counts the streams.
        if session.record_beat(token_now) {
            return checked.map(|()| HeartbeatOutcome::Counted);
        }
        Ok(HeartbeatOutcome::Reviving(self.revive(
            Arc::clone(session),
            checked,
            token_now,
        )))
    }

    pub(super) fn record(&self, session: &Session, beat: &Beat, time: RequestTime) {
        session.record(beat, time.partner);
        if let Some(observer) = self.observer.get() {
            let (position, bitrate) = (beat.position, beat.bitrate);
            observer.beat(&session.user, session.id, time.server, position, bitrate);
        }
    }

    fn revive(
        &self,
        session: Arc<Session>,
        checked: Result<(), PlaybackError>,
        token_now: UnixSeconds,
    ) -> Commit<(), PlaybackError> {
        let memory = Arc::clone(&self.sessions);
        let start = &session.start;
        let streams = self
            .context
            .playable(&start.asset, start.protocol)
            .and_then(|found| found.streams);
        let total = self.settings.streams_total;
        let here = self.settings.limit_here(streams);
        self.store
            .write_for(WritePriority::Login, Durability::Logged, move |txn| {
                let ended = PlaybackError::SessionEnded(EndReason::Expired);
                // It may have ended while the commit waited.
                if memory.get(&session.id).is_none() {
                    return Err(ended);
                }
                let sessions = stream_limits::sessions_of(txn, &memory, session.user)?;
                // An earlier transaction of the same group may have ended it.
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
                    // A session that comes back must not push out one that kept playing.
                    WhenFull::Deny,
                    token_now,
                ) {
                    Ok(_) => session.revive(token_now),
                    Err(PlaybackError::StreamLimitReached(_)) => return Err(ended),
                    Err(other) => return Err(other),
                }
                // The result of the program check counts only once the slot is back.
                checked
            })
    }

    pub(super) fn trace_session(
        &self,
        session: &Session,
        trace: &DecisionTrace,
        time: RequestTime,
    ) {
        trace.asset(&session.start.asset);
        let life = session.liveness(self.expiry.at(time.server));
        trace.step("session", life == Liveness::Alive, || {
            let view = session.view();
            let life = match life {
                Liveness::Alive => "alive",
                Liveness::Idle => "idle: it has lost its stream slot",
                Liveness::Over => "over: no heartbeat came in time",
            };
            let seen = self.expiry.token_to_wall(view.seen, time.server);
            let position = session
                .position(time.partner)
                .map_or_else(String::new, |position| format!(", position {}", position.0));
            let (since, drm) = (view.since.in_utc(), view.drm.as_str());
            let seen = seen.in_utc();
            format!("{life}; started {since} with {drm}, last heartbeat {seen}{position}")
        });
    }

    pub(super) fn check_program(
        &self,
        session: &Session,
        grace: Grace,
        trace: &DecisionTrace,
        time: RequestTime,
    ) -> Result<(), PlaybackError> {
        let now = time.partner;
        let within_grace = self.is_within_pin_grace(session, grace, time.server);
        let position = session.position(now);
        match &session.start.playing {
            PlayedAsset::Vod => {
                let asset = &session.start.asset;
                // The right itself cannot change for a video on demand while its entitlement holds.
                let is_pin_due = !within_grace;
                let locked = || {
                    !session.unlocked(asset.as_str())
                        && self.context.vod_needs_pin(&session.user, asset)
                };
                match is_pin_due && locked() {
                    true => Err(PlaybackError::PinCodeRequired),
                    false => Ok(()),
                }
            }
            PlayedAsset::Live { livestream, .. } => {
                let played_at = position.map_or(now, |position| checked_position(position, now));
                self.check_livestream(session, livestream, played_at, trace, now)
            }
            PlayedAsset::Catchup(played) => {
                let PlayedBroadcast {
                    livestream,
                    broadcast,
                    start,
                    stop,
                } = &**played;
                let is_in_broadcast = |position: &UnixSeconds| {
                    *start - PADDING_SECONDS <= *position && *position < *stop + PADDING_SECONDS
                };
                let played_at = match position {
                    // Padding shows the neighbours for seconds; the rights of the program count there.
                    Some(position) if is_in_broadcast(&position) => {
                        position.min(*stop - 1).max(*start)
                    }
                    // The player left the recording and plays the livestream, so the rights of the livestream
                    // count.
                    Some(position) if checked_position(position, now) == position => {
                        return self.check_livestream(session, livestream, position, trace, now);
                    }
                    // No position yet, or the player counts from its own start.
                    Some(_) | None => *start,
                };
                match self.context.broadcast(broadcast) {
                    Some(shown) => {
                        let is_pin_due = !within_grace;
                        self.check_shown(
                            session,
                            livestream,
                            &shown,
                            (played_at, is_pin_due),
                            trace,
                            now,
                        )
                    }
                    // The schedule no longer has the broadcast; the expiry of the entitlement still applies.
                    None => Ok(()),
                }
            }
        }
    }

    fn check_livestream(
        &self,
        session: &Session,
        livestream: &LivestreamId,
        played_at: UnixSeconds,
        trace: &DecisionTrace,
        now: UnixSeconds,
    ) -> Result<(), PlaybackError> {
        let shown = self.context.program_at(livestream, played_at);
        // A livestream that was removed from the catalogue has no rights.
        let shown = shown.ok_or(PlaybackError::NotAvailable)?;
        let start = shown.program.as_ref().map(|program| program.start);
        let is_pin_due = start.is_some_and(|start| played_at.since(start) >= PIN_GRACE);
        self.check_shown(
            session,
            livestream,
            &shown,
            (played_at, is_pin_due),
            trace,
            now,
        )
    }

    /// `played_at` is the position whose rights count. `is_pin_due`: a PIN that the program needs must have been entered
    /// by now.
    fn check_shown(
        &self,
        session: &Session,
        livestream: &LivestreamId,
        shown: &ProgramAtPosition,
        (played_at, is_pin_due): (UnixSeconds, bool),
        trace: &DecisionTrace,
        now: UnixSeconds,
    ) -> Result<(), PlaybackError> {
        // Rights before the PIN: a PIN cannot open what may not be watched.
        shown.rights.check(played_at, now).inspect_err(|withheld| {
            let program = shown.program.as_ref().map(|program| program.id.clone());
            let live = matches!(withheld, Withheld::NoLiveRights { .. });
            trace.refused_by(|| RightsRefusal::new(program, live, now));
        })?;
        let locked = shown.program.as_ref().is_some_and(|program| {
            is_pin_due
                && !session.unlocked(program.id.as_str())
                && self
                    .context
                    .program_needs_pin(&session.user, livestream, program)
        });
        match locked {
            true => Err(PlaybackError::PinCodeRequired),
            false => Ok(()),
        }
    }

    fn is_within_pin_grace(&self, session: &Session, grace: Grace, now: UnixSeconds) -> bool {
        grace == Grace::Allowed && now.since(session.start.since) < PIN_GRACE
    }
}

pub(super) fn refused(error: &PlaybackError, trace: &DecisionTrace) {
    trace.step(error.check(), false, || error.to_string());
}

const COUNTED: u16 = 0;

/// Distinguishes the refusals of a heartbeat, so that the journal keeps the first of a series.
const fn answer_number(error: &PlaybackError) -> u16 {
    match error {
        PlaybackError::EntitlementInvalid => 1,
        PlaybackError::EntitlementExpired => 2,
        PlaybackError::SessionMismatch => 3,
        PlaybackError::TooManyBeats(_) => 4,
        PlaybackError::NoLiveRights { .. } => 5,
        PlaybackError::NotAvailable => 6,
        PlaybackError::PinCodeRequired => 7,
        PlaybackError::SessionEnded(_) => 8,
        PlaybackError::DrmProtocolMismatch(_)
        | PlaybackError::UserGone
        | PlaybackError::GeoBlocked
        | PlaybackError::DeviceLimitReached
        | PlaybackError::StreamLimitReached(_)
        | PlaybackError::AssetNotFound
        | PlaybackError::ProtocolNotAvailable
        | PlaybackError::NoPlaylist
        | PlaybackError::NoLicenseServer(_)
        | PlaybackError::SessionNotFound
        | PlaybackError::DrmMismatch
        | PlaybackError::KeyNotAllowed
        | PlaybackError::DeviceNotFound
        | PlaybackError::Store(_) => 9,
    }
}
