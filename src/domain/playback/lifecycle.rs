//! Ends, revokes, expires and exports sessions, and lists and removes devices.

use std::collections::BTreeSet;
use std::sync::Arc;

use playgate_store::{Commit, Durability, StoreError, Table, Txn, WritePriority};
use playgate_types::{AssetId, DeviceId, LoginId, SessionId, TokenHash, UnixSeconds, UserId};

use super::Playback;
use super::context::Viewer;
use super::entitlement_token::HeldEntitlement;
use super::error::PlaybackError;
use super::model::{EndReason, Entitlement, Registered, SessionView};
use super::session::{Liveness, Session};
use super::stream_limits;
use super::tables;

/// Seconds for which the end of a session and the expiry of an entitlement are remembered.
pub(super) const REMEMBERED_SECONDS: i64 = 3_600;
/// Maximum remembered ends. Beyond it the oldest are forgotten and answer `SESSION_NOT_FOUND`.
const REMEMBERED_MAX: usize = 100_000;
/// Seconds by which the stored heartbeat of a session may lag behind memory.
const CHECKPOINT_LAG_SECONDS: i64 = 300;
/// Changes per transaction of a background job: few, so that requests do not wait long for the
/// writer thread.
const BATCH: usize = 256;

pub struct PlaybackData {
    pub devices: Vec<Registered>,
    pub sessions: Vec<SessionView>,
    pub entitlements: Vec<Entitlement>,
}

impl Playback {
    /// Reads the devices from disk.
    pub fn export(&self, user: &UserId, now: UnixSeconds) -> Result<PlaybackData, PlaybackError> {
        let tokens = self.tokens.tokens_of_user(user);
        let held = tokens.iter().filter_map(|hash| self.tokens.get(hash));
        // Times are stored in token time, which means nothing outside.
        let shown = |held: Arc<HeldEntitlement>| Entitlement {
            issued: self.expiry.token_to_wall(held.entitlement.issued, now),
            expires: self.expiry.token_to_wall(held.entitlement.expires, now),
            ..held.entitlement.clone()
        };
        Ok(PlaybackData {
            devices: self.devices_of(user)?,
            sessions: self.sessions_of(user, now),
            entitlements: held.map(shown).collect(),
        })
    }

    pub fn sessions_of(&self, user: &UserId, now: UnixSeconds) -> Vec<SessionView> {
        let at = self.expiry.at(now);
        self.sessions
            .sessions_of_user(user)
            .iter()
            .filter(|session| session.liveness(at) != Liveness::Over)
            .map(|session| self.view(session, now))
            .collect()
    }

    /// Oldest first, at most `limit`.
    pub fn all_sessions(
        &self,
        asset: Option<&AssetId>,
        limit: usize,
        now: UnixSeconds,
    ) -> Vec<SessionView> {
        let wanted = |session: &Session| {
            let place = stream_limits::place(&session.start.playing, &session.start.asset);
            asset.is_none_or(|asset| asset.as_str() == place)
        };
        let (mut views, at) = (Vec::new(), self.expiry.at(now));
        self.sessions.for_each(|session| {
            if session.liveness(at) == Liveness::Alive && wanted(session) {
                views.push(self.view(session, now));
            }
        });
        views.sort_by_key(|view| (view.since, view.id));
        views.truncate(limit);
        views
    }

    fn view(&self, session: &Session, now: UnixSeconds) -> SessionView {
        let view = session.view();
        SessionView {
            seen: self.expiry.token_to_wall(view.seen, now),
            ..view
        }
    }

    pub fn streams(&self, now: UnixSeconds) -> usize {
        let (mut count, at) = (0, self.expiry.at(now));
        self.sessions
            .for_each(|session| count += usize::from(session.liveness(at) == Liveness::Alive));
        count
    }

    pub fn stop(
        &self,
        user: &UserId,
        session: Option<&SessionId>,
        reason: EndReason,
        now: UnixSeconds,
    ) -> Result<Commit<(), PlaybackError>, PlaybackError> {
        let session = self.find(session)?;
        if session.user != *user {
            return Err(PlaybackError::SessionMismatch);
        }
        if session.liveness(self.expiry.at(now)) == Liveness::Over {
            return Err(PlaybackError::SessionEnded(EndReason::Expired));
        }
        Ok(self.end(vec![session], reason, now))
    }

    pub fn revoke(
        &self,
        session: &SessionId,
        now: UnixSeconds,
    ) -> Result<Commit<(), PlaybackError>, PlaybackError> {
        let session = self.find(Some(session))?;
        Ok(self.end(vec![session], EndReason::Revoked, now))
    }

    pub fn end_all(
        &self,
        user: &UserId,
        reason: EndReason,
        now: UnixSeconds,
    ) -> Commit<(), PlaybackError> {
        let user = *user;
        self.store
            // The highest priority: on a full disk a viewer must still be able to end a stream.
            .write_for(WritePriority::Login, Durability::Logged, move |txn| {
                Ok(stream_limits::end_all(txn, user, reason, now)?)
            })
    }

    /// Ends the sessions of a user's logins that `ends` selects. `None` if there are none.
    #[must_use]
    pub fn end_of_logins(
        &self,
        user: &UserId,
        ends: impl Fn(LoginId) -> bool,
        now: UnixSeconds,
    ) -> Option<Commit<(), PlaybackError>> {
        let mut sessions = self.sessions.sessions_of_user(user);
        sessions.retain(|session| session.login().is_some_and(&ends));
        (!sessions.is_empty()).then(|| self.end(sessions, EndReason::Revoked, now))
    }

    fn end(
        &self,
        sessions: Vec<Arc<Session>>,
        reason: EndReason,
        now: UnixSeconds,
    ) -> Commit<(), PlaybackError> {
        self.store
            .write_for(WritePriority::Login, Durability::Logged, move |txn| {
                for session in sessions {
                    let key = (session.user, session.id);
                    // An earlier transaction of the same group may have ended it; the first reason wins.
                    if txn.get::<tables::Sessions>(&key)?.is_some() {
                        stream_limits::end(txn, session.user, session.id, reason, now)?;
                    }
                }
                Ok(())
            })
    }

    /// Returns how many sessions were still over, and ended.
    pub(super) fn end_expired(
        &self,
        sessions: Vec<Arc<Session>>,
        at: UnixSeconds,
        now: UnixSeconds,
    ) -> Commit<usize, PlaybackError> {
        self.store
            .write_for(WritePriority::Login, Durability::Logged, move |txn| {
                let mut ended = 0;
                for session in sessions {
                    let key = (session.user, session.id);
                    // A heartbeat may have revived it since the sweep saw it.
                    let over = session.liveness(at) == Liveness::Over;
                    if over && txn.get::<tables::Sessions>(&key)?.is_some() {
                        stream_limits::end(txn, session.user, session.id, EndReason::Expired, now)?;
                        ended += 1;
                    }
                }
                Ok(ended)
            })
    }

    pub fn devices_of(&self, user: &UserId) -> Result<Vec<Registered>, PlaybackError> {
        let found = self
            .store
            .read(|txn| txn.scan::<tables::Devices>(user, usize::MAX))?;
        let mut devices: Vec<Registered> = found.into_iter().map(|(_, device)| device).collect();
        // The id breaks ties, so that the list keeps its order.
        devices.sort_by(|a, b| (a.since, &a.device.id).cmp(&(b.since, &b.device.id)));
        Ok(devices)
    }

    /// Ends the sessions on the device.
    pub fn remove_device(
        &self,
        user: &UserId,
        device: DeviceId,
        now: UnixSeconds,
    ) -> Commit<(), PlaybackError> {
        let (key, memory) = ((*user, device), Arc::clone(&self.sessions));
        // Durable: a stolen device must not come back after a power cut.
        self.store.write(Durability::Durable, move |txn| {
            if txn.get::<tables::Devices>(&key)?.is_none() {
                return Err(PlaybackError::DeviceNotFound);
            }
            txn.delete::<tables::Devices>(&key)?;
            let (user, device) = key;
            for (id, stored) in stream_limits::sessions_of(txn, &memory, user)? {
                if stored.start.device.id == device {
                    stream_limits::end(txn, user, id, EndReason::Revoked, now)?;
                }
            }
            Ok(())
        })
    }

    pub fn clear_devices(&self, user: &UserId, now: UnixSeconds) -> Commit<(), PlaybackError> {
        let user = *user;
        // Durable, like the removal of a single device.
        self.store.write(Durability::Durable, move |txn| {
            for (key, _) in txn.scan::<tables::Devices>(&user, usize::MAX)? {
                txn.delete::<tables::Devices>(&key)?;
            }
            Ok(stream_limits::end_all(txn, user, EndReason::Revoked, now)?)
        })
    }

    /// Voids the tokens that no offer of the user covers any more, and ends the sessions that use them.
    /// Must be called after an offer was revoked.
    pub fn void_lost(&self, viewer: &Viewer, now: UnixSeconds) -> Commit<(), PlaybackError> {
        let user = viewer.user;
        let held = self.tokens.tokens_of_user(&user).into_iter();
        let held = held.filter_map(|hash| Some((hash, self.tokens.get(&hash)?)));
        let (lost, kept): (Vec<_>, Vec<_>) =
            held.partition(|(_, held)| self.is_lost(viewer, &held.entitlement, now));
        let assets = |tokens: &[(TokenHash, Arc<HeldEntitlement>)]| -> BTreeSet<AssetId> {
            let assets = tokens.iter().map(|(_, held)| &held.entitlement.asset);
            assets.cloned().collect()
        };
        // An asset that another token still covers keeps playing: another offer may include it.
        let ending = &assets(&lost) - &assets(&kept);
        let memory = Arc::clone(&self.sessions);
        self.store.write(Durability::Durable, move |txn| {
            for (hash, _) in &lost {
                txn.delete::<tables::Entitlements>(&(user, *hash))?;
            }
            for (id, stored) in stream_limits::sessions_of(txn, &memory, user)? {
                if ending.contains(&stored.start.asset) {
                    stream_limits::end(txn, user, id, EndReason::Revoked, now)?;
                }
            }
            Ok(())
        })
    }

    fn is_lost(&self, viewer: &Viewer, entitlement: &Entitlement, now: UnixSeconds) -> bool {
        // The country of the request is not stored; any country of the entitlement is used instead.
        let there = Viewer {
            country: entitlement.countries.first().copied().or(viewer.country),
            ..viewer.clone()
        };
        !self.context.still_entitled(&there, &entitlement.asset, now)
    }

    /// Restarts the liveness period of every session that has not ended. Must be called once, when the
    /// service is ready.
    pub fn refresh(&self, now: UnixSeconds) {
        // A restart neither ends a running session nor revives an ended one.
        let at = self.expiry.at(now);
        self.sessions.for_each(|session| session.revive(at));
    }

    /// Blocks.
    pub fn sweep_sessions(&self, now: UnixSeconds) -> Result<usize, PlaybackError> {
        let (mut over, at) = (Vec::new(), self.expiry.at(now));
        self.sessions.for_each(|session| {
            if session.liveness(at) == Liveness::Over {
                over.push(Arc::clone(session));
            }
        });
        let mut ended = 0;
        for batch in over.chunks(BATCH) {
            ended += self.end_expired(batch.to_vec(), at, now).wait()?;
        }
        Ok(ended)
    }

    /// Blocks.
    pub fn sweep_entitlements(&self, now: UnixSeconds) -> Result<usize, PlaybackError> {
        // Until then a player gets "entitlement expired" and not "entitlement invalid".
        let expired = self
            .tokens
            .expired(self.expiry.at(now) - REMEMBERED_SECONDS);
        self.delete_all::<tables::Entitlements>(&expired)?;
        Ok(expired.len())
    }

    /// Blocks.
    pub fn sweep_ended(&self, now: UnixSeconds) -> Result<usize, PlaybackError> {
        let forgotten = self.forgettable(now);
        self.delete_all::<tables::EndedSessions>(&forgotten)?;
        // As long as the end is known, and not for an account that is gone.
        let has_reports = |reason| reason != EndReason::Erased;
        let left = &self.sessions.left;
        left.retain(|id| self.ended.reason(id).is_some_and(has_reports));
        Ok(forgotten.len())
    }

    fn delete_all<T: Table>(&self, keys: &[T::Key]) -> Result<(), PlaybackError> {
        for batch in keys.chunks(BATCH) {
            // Small batches let requests in between.
            let batch = batch.to_vec();
            self.logged(move |txn| batch.iter().try_for_each(|key| txn.delete::<T>(key)))?;
        }
        Ok(())
    }

    fn forgettable(&self, now: UnixSeconds) -> Vec<(UserId, SessionId)> {
        let ended = self.ended.by_age();
        let surplus = ended.len().saturating_sub(REMEMBERED_MAX);
        ended
            .into_iter()
            .enumerate()
            // The list is sorted by age, so the surplus is at its beginning.
            .filter(|(nth, (at, _))| *nth < surplus || now.since(*at) >= REMEMBERED_SECONDS)
            .map(|(_, (_, key))| key)
            .collect()
    }

    /// Writes the heartbeats that are minutes newer than their stored value, and returns how many it
    /// wrote. Blocks.
    pub fn checkpoint(&self) -> Result<usize, PlaybackError> {
        let mut due = Vec::new();
        self.sessions.for_each(|session| {
            if let Some(seen) = session.due(CHECKPOINT_LAG_SECONDS) {
                due.push(((session.user, session.id), seen));
            }
        });
        // A restart loses at most these minutes, and `refresh` makes up for them.
        for batch in due.chunks(BATCH) {
            let batch = batch.to_vec();
            self.logged(move |txn| {
                for (key, seen) in &batch {
                    // The session may have ended since.
                    if let Some(mut stored) = txn.get::<tables::Sessions>(key)? {
                        stored.seen = *seen;
                        txn.put::<tables::Sessions>(key, &stored)?;
                    }
                }
                Ok(())
            })?;
        }
        Ok(due.len())
    }

    fn logged(
        &self,
        transaction: impl FnOnce(&mut Txn<'_>) -> Result<(), StoreError> + Send + 'static,
    ) -> Result<(), PlaybackError> {
        self.store
            .write_for(WritePriority::Login, Durability::Logged, transaction)
            .wait()?;
        Ok(())
    }
}
