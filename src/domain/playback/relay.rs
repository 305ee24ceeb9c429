//! Heartbeats in a fleet. A standby answers those that change nothing, and reports them to the owner, which counts streams and
//! ends sessions.

use playgate_types::{RelayedBeat, SessionId, UnixSeconds};

use super::Playback;
use super::session::{ALIVE_SECONDS, Beat};

impl Playback {
    /// At a standby: returns the last heartbeats of sessions that it has answered, for the owner.
    pub fn beats_to_relay(&self, sessions: &[SessionId], now: UnixSeconds) -> Vec<RelayedBeat> {
        let beats = sessions.iter().filter_map(|id| {
            let session = self.sessions.get(id)?;
            let view = session.view();
            let (width, height) = view.resolution;
            Some(RelayedBeat {
                session: *id,
                position: session.position(now)?.0,
                bitrate: view.bitrate,
                width,
                height,
            })
        });
        beats.collect()
    }

    /// At the owner: counts heartbeats that a standby has answered. Returns the sessions that hold no slot: the standby must
    /// forward their next heartbeat, which needs a transaction.
    pub fn take_relayed(&self, beats: &[RelayedBeat], now: UnixSeconds) -> Vec<SessionId> {
        let token_now = self.expiry.at(now);
        let mut idle = Vec::new();
        for beat in beats {
            // A session that has ended is removed at the standby by the same commit.
            let Some(session) = self.sessions.get(&beat.session) else {
                continue;
            };
            let last = Beat {
                position: beat.position,
                bitrate: beat.bitrate,
                width: beat.width,
                height: beat.height,
            };
            self.record(&session, &last, now.into());
            if !session.record_beat(token_now) {
                idle.push(session.id);
            }
        }
        idle
    }

    /// At a standby: the owner has counted a heartbeat of the session, so the next ones can be answered here.
    pub fn confirm_beat(&self, session: &SessionId, now: UnixSeconds) {
        if let Some(session) = self.sessions.get(session) {
            session.revive(self.expiry.at(now));
        }
    }

    /// Whether a session went on for a while after a time.
    pub fn went_on_after(&self, session: &SessionId, time: UnixSeconds) -> bool {
        self.sessions.get(session).is_some()
            || self
                .ended
                .ended_at(session)
                .is_some_and(|at| at.since(time) > 2 * ALIVE_SECONDS)
    }

    /// At a standby: the session holds no slot any more.
    pub fn mark_idle(&self, session: &SessionId) {
        if let Some(session) = self.sessions.get(session) {
            session.lose_slot();
        }
    }
}
