//! The running and the ended sessions in memory, kept up to date by the commits of their tables.

use std::sync::Arc;

use dashmap::DashMap;
use foldhash::quality::RandomState;

use super::left_sessions::LeftSessions;
use super::model::{EndReason, EndedSession};
use super::session::Session;
use super::{Observer, SessionObserver, tables};
use playgate_store::{Changed, CommitListener};
use playgate_types::{SessionId, UnixSeconds, UserId};

#[derive(Default)]
pub(crate) struct SessionMap {
    pub(super) by_id: DashMap<SessionId, Arc<Session>, RandomState>,
    by_user: DashMap<UserId, Vec<Arc<Session>>, RandomState>,
    pub(super) left: LeftSessions,
}

impl SessionMap {
    pub(crate) fn get(&self, id: &SessionId) -> Option<Arc<Session>> {
        self.by_id.get(id).map(|session| Arc::clone(&session))
    }

    pub(crate) fn sessions_of_user(&self, user: &UserId) -> Vec<Arc<Session>> {
        // Cloned, so that no lock is held while the caller works.
        let mut sessions = self
            .by_user
            .get(user)
            .map(|sessions| sessions.clone())
            .unwrap_or_default();
        sessions.sort_by_key(|session| (session.start.since, session.id));
        sessions
    }

    pub(crate) fn for_each(&self, mut each: impl FnMut(&Arc<Session>)) {
        for session in &self.by_id {
            each(&session);
        }
    }
}

impl CommitListener<tables::Sessions> for SessionMap {
    fn apply(&self, changes: Vec<Changed<tables::Sessions>>) {
        for Changed { key, record } in changes {
            let (user, id) = key;
            match record {
                Some(stored) => {
                    if let Some(session) = self.get(&id) {
                        // Heartbeat state must survive: other handles to the session exist.
                        session.update_from(stored);
                        continue;
                    }
                    let session = Arc::new(Session::new(id, user, stored));
                    self.by_user
                        .entry(user)
                        .or_default()
                        .push(Arc::clone(&session));
                    self.by_id.insert(id, session);
                }
                None => {
                    if let Some((_, session)) = self.by_id.remove(&id) {
                        self.left.push(session);
                    }
                    if let Some(mut sessions) = self.by_user.get_mut(&user) {
                        sessions.retain(|session| session.id != id);
                    }
                    // Checked again under the lock of the map: a session may have been added since.
                    self.by_user.remove_if(&user, |_, left| left.is_empty());
                }
            }
        }
    }
}

pub(crate) struct EndedMap {
    by_id: DashMap<SessionId, (UserId, EndedSession)>,
    observer: Observer,
}

impl EndedMap {
    pub(super) fn new(observer: Observer) -> Self {
        Self {
            by_id: DashMap::new(),
            observer,
        }
    }

    pub(super) fn report_all(&self, observer: &dyn SessionObserver) {
        for entry in &self.by_id {
            let (user, ended) = entry.value();
            report_end(observer, user, *entry.key(), ended);
        }
    }

    pub(crate) fn reason(&self, id: &SessionId) -> Option<EndReason> {
        self.by_id.get(id).map(|ended| ended.1.reason)
    }

    pub(crate) fn ended_at(&self, id: &SessionId) -> Option<UnixSeconds> {
        self.by_id.get(id).map(|ended| ended.1.at)
    }

    /// Oldest first, with their end time.
    pub(crate) fn by_age(&self) -> Vec<(UnixSeconds, (UserId, SessionId))> {
        let mut ended: Vec<_> = self
            .by_id
            .iter()
            .map(|ended| (ended.1.at, (ended.0, *ended.key())))
            .collect();
        ended.sort_unstable();
        ended
    }
}

impl CommitListener<tables::EndedSessions> for EndedMap {
    fn apply(&self, changes: Vec<Changed<tables::EndedSessions>>) {
        for Changed { key, record } in changes {
            let (user, id) = key;
            match record {
                Some(ended) => {
                    self.by_id.insert(id, (user, ended.clone()));
                    // After the insert: an observer that is set in between finds the end in the map.
                    if let Some(observer) = self.observer.get() {
                        report_end(&**observer, &user, id, &ended);
                    }
                }
                None => {
                    self.by_id.remove(&id);
                }
            }
        }
    }
}

fn report_end(observer: &dyn SessionObserver, user: &UserId, id: SessionId, ended: &EndedSession) {
    observer.ended(user, id, ended.at, ended.reason == EndReason::Stopped);
}
