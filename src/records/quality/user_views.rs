//! The open views of each user.

use super::view::{View, ViewId};

/// The open views of a user. Those without a session are apart: each start looks for one, and a viewer has few of them.
#[derive(Default)]
pub(super) struct UserViews {
    with_session: Vec<ViewId>,
    pub(super) without_session: Vec<ViewId>,
}

impl UserViews {
    pub(super) fn list_of(&mut self, view: &View) -> &mut Vec<ViewId> {
        match view.session {
            Some(_) => &mut self.with_session,
            None => &mut self.without_session,
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &ViewId> {
        self.with_session.iter().chain(&self.without_session)
    }
}
