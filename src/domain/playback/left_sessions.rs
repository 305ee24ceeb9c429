//! The sessions that ended last: their players may still report how they played.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use playgate_types::SessionId;

use super::session::Session;

const LEFT_MAX: usize = 4_096;

/// The newest last.
#[derive(Default)]
pub(crate) struct LeftSessions(Mutex<VecDeque<Arc<Session>>>);

impl LeftSessions {
    pub(super) fn push(&self, session: Arc<Session>) {
        let mut left = self.0.lock();
        if left.len() >= LEFT_MAX {
            left.pop_front();
        }
        left.push_back(session);
    }

    pub(super) fn find(&self, id: &SessionId) -> Option<Arc<Session>> {
        let left = self.0.lock();
        left.iter().rev().find(|session| session.id == *id).cloned()
    }

    pub(super) fn retain(&self, keeps: impl Fn(&SessionId) -> bool) {
        self.0.lock().retain(|session| keeps(&session.id));
    }
}
