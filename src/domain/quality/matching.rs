//! Finds the view of an event.

use super::dimensions::Dimension;
use super::input::{PlayerAction, PlayerEvent};
use super::state::{LATE_SECONDS, QualityState, ViewId, shared};
use super::view::{BEFORE_SESSION, View};
use crate::types::{PartnerId, SessionId, UnixSeconds, UserId};

/// Maximum open views without a session of one user. Events name their devices freely: without a limit, one viewer could
/// make each search for a view slow and push out the views of all others.
pub(super) const WITHOUT_SESSION_MAX: usize = 500;

/// Seconds by which the clocks of most devices are off at most.
const CLOCK_SLACK: i64 = 5;

impl View {
    /// Whether an event at this time belongs to the view rather than to another start of the title on the device. A request
    /// for playback precedes its session.
    fn covers(&self, at: UnixSeconds, is_request: bool) -> bool {
        let Some((_, opened)) = self.session else {
            return false;
        };
        if is_request {
            return (-CLOCK_SLACK..=BEFORE_SESSION).contains(&opened.since(at));
        }
        opened <= at + CLOCK_SLACK && self.ended.is_none_or(|(end, _)| at <= end + CLOCK_SLACK)
    }
}

impl QualityState {
    pub(super) fn event(
        &mut self,
        user: UserId,
        partner: PartnerId,
        received: UnixSeconds,
        event: &PlayerEvent,
    ) {
        let known = self.view_of(&user, received, event);
        let id = match known {
            Some(id) => id,
            None => match self.begin_without_session(user, partner, received, event) {
                Some(id) => id,
                None => {
                    self.counts.late += 1;
                    return;
                }
            },
        };
        let Some(view) = self.views.get_mut(&id) else {
            return;
        };
        // The only label that a session takes from its player.
        let version = event.labels.get(Dimension::AppVersion);
        if view.lacks_version(version) {
            let version = shared(&mut self.names, version);
            view.labels.set_shared(Dimension::AppVersion, version);
        }
        if view.event(event, received) {
            self.counts.counted += 1;
        } else {
            self.counts.clock += 1;
        }
    }

    /// Returns the view of the named session if it belongs to the user, else the user's latest view of device and asset.
    fn view_of(&self, user: &UserId, received: UnixSeconds, event: &PlayerEvent) -> Option<ViewId> {
        // A session id cannot be guessed, but it can be copied: it counts only for its own user.
        let named = event
            .session
            .as_deref()
            .and_then(|text| SessionId::parse(text).ok());
        if let Some(session) = named
            && let Some(view) = self.views.get(session.as_bytes())
            && view.user == Some(*user)
        {
            return Some(*session.as_bytes());
        }
        let device = event.device.as_deref().unwrap_or_default();
        let asset = event.labels.get(Dimension::Asset);
        // An event that is older than the session belongs to an earlier view, unless the player's clock is wrong.
        let at = UnixSeconds(event.timestamp_millis.div_euclid(1_000));
        let delay = received.since(at);
        // A clock that is ahead, or behind by more than events may be late, says nothing about the order.
        let plausible = (0..=LATE_SECONDS).contains(&delay);
        let fits = |view: &View| {
            let early = view
                .session
                .is_some_and(|(_, opened)| at < opened - BEFORE_SESSION);
            (view.session.is_some() || named.is_none())
                && *view.device == *device
                && (asset.is_empty() || view.labels.get(Dimension::Asset) == asset)
                && !(plausible && early)
        };
        let views = self.by_user.get(user)?.iter();
        let fitting = views.filter_map(|id| Some((id, self.views.get(id)?)));
        let at = if plausible { at } else { received };
        let is_request = event.action == PlayerAction::Requested;
        fitting
            .filter(|(_, view)| fits(view))
            // A late report of a start belongs to it, also if the title was started again since. The id only makes the
            // choice definite: a replay of the log must make the same one.
            .max_by_key(|(id, view)| {
                (
                    view.covers(at, is_request),
                    view.is_running(),
                    view.begin(),
                    **id,
                )
            })
            .map(|(id, _)| *id)
    }

    fn without_session(&self, user: &UserId) -> usize {
        let ids = self.by_user.get(user).into_iter().flatten();
        let views = ids.filter_map(|id| self.views.get(id));
        views.filter(|view| view.session.is_none()).count()
    }

    /// Begins a view without a session, unless the event names one. `None` means that the event counts as late.
    fn begin_without_session(
        &mut self,
        user: UserId,
        partner: PartnerId,
        received: UnixSeconds,
        event: &PlayerEvent,
    ) -> Option<ViewId> {
        // The named session is closed, or never existed.
        let foreign = event
            .session
            .as_deref()
            .is_some_and(|text| SessionId::parse(text).is_ok());
        if foreign || self.without_session(&user) >= WITHOUT_SESSION_MAX {
            return None;
        }
        let view = View::of_events(user, partner, event, received);
        // A hash of the event and not a random id: a replay of the log must give the same view.
        let mut hasher = ring::digest::Context::new(&ring::digest::SHA256);
        hasher.update(user.as_bytes());
        hasher.update(&event.timestamp_millis.to_be_bytes());
        hasher.update(&event.sequence.to_be_bytes());
        hasher.update(view.device.as_bytes());
        let hash = hasher.finish();
        let id = *hash.as_ref().first_chunk::<16>()?;
        self.insert(id, Box::new(view));
        Some(id)
    }
}
