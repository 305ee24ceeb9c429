//! Finds the view of an event.

use std::cmp::Reverse;

use super::state::{LATE_SECONDS, QualityState};
use super::view::{BEFORE_SESSION, View, ViewId};
use crate::telemetry::dimensions::Dimension;
use crate::telemetry::{PlayerAction, PlayerEvent};
use playgate_types::{PartnerId, SessionId, UnixSeconds, UserId};

/// Maximum open views without a session of one user. Events name their devices freely: without a limit, one viewer could
/// make each search for a view slow and push out the views of all others.
pub(super) const WITHOUT_SESSION_MAX: usize = 500;

/// Seconds by which the clocks of most devices are off at most.
const CLOCK_SLACK: i64 = 5;

/// How well an event fits a view by its time, the better the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    Outside,
    /// Not further away than clocks are off.
    Near,
    /// With the distance from the start of the session, for events of a start.
    Within(Reverse<u64>),
}

impl View {
    /// Tells one start of a title on a device from another, so that an event belongs to its own whenever it arrives.
    fn fit(&self, at: UnixSeconds, action: &PlayerAction) -> Fit {
        let Some((_, opened)) = self.session else {
            return Fit::Outside;
        };
        let (from_start, end) = (at.since(opened), self.ended.map(|(end, _)| end));
        let is_within =
            |slack: i64| from_start >= -slack && end.is_none_or(|end| at <= end + slack);
        let near_start = Fit::Within(Reverse(from_start.unsigned_abs()));
        match action {
            // A request for playback precedes its session.
            PlayerAction::Requested => {
                match (-BEFORE_SESSION..=CLOCK_SLACK).contains(&from_start) {
                    true => near_start,
                    false => Fit::Outside,
                }
            }
            // A viewer may have stopped a moment before, so that the time alone says too little.
            PlayerAction::Started(_) | PlayerAction::InitialWait(_) if is_within(CLOCK_SLACK) => {
                near_start
            }
            _ if is_within(0) => Fit::Within(Reverse(0)),
            _ if is_within(CLOCK_SLACK) => Fit::Near,
            _ => Fit::Outside,
        }
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
            view.set_version(version);
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
        // The view of the named session is closed. What a device kept for hours is not about what it plays now.
        if named.is_some_and(|session| !self.views.contains_key(session.as_bytes())) {
            return None;
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
        let views = self.by_user.get(user)?.all();
        let fitting = views.filter_map(|id| Some((id, self.views.get(id)?)));
        let at = if plausible { at } else { received };
        let is_request = event.action == PlayerAction::Requested;
        let fitting = fitting
            .filter(|(_, view)| fits(view))
            .map(|(id, view)| (id, view, view.fit(at, &event.action)));
        fitting
            // The request for the next start may arrive before its preflight.
            .filter(|(_, view, fit)| !is_request || *fit != Fit::Outside || view.ended.is_none())
            // A late report of a start belongs to it, also if the title was started again since. The id only makes the
            // choice definite: a replay of the log must make the same one.
            .max_by_key(|(id, view, fit)| (*fit, view.is_running(), view.begin(), **id))
            .map(|(id, ..)| *id)
    }

    fn without_session(&self, user: &UserId) -> usize {
        let views = self.by_user.get(user);
        views.map_or(0, |views| views.without_session.len())
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
