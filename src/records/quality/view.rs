//! A view: one playback session with its heartbeats and events, or the events of a player without a session.
//!
//! A view keeps sums and extremes, from which its figures are computed, so that the order in which its events arrive does
//! not matter.
//!
//! Players' clocks are wrong. Lengths are differences of one clock. Where a player's time meets a time of the server,
//! it is shifted by the least delay that any event of the view arrived with.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::figures::Cell;
use super::input::OpenedSession;
use super::timeline::{Bitrates, PlayState};
use super::view_events::{EventsOfView, ViewEvents};
use crate::telemetry::dimensions::{Dimension, Labels, SharedLabels};
use crate::telemetry::{BITRATE_MAX, PlayerAction, PlayerEvent, Reported};
use playgate_domain::playback::session::ALIVE_SECONDS;
use playgate_types::time::HOUR;
use playgate_types::{DurationUnit, PartnerId, SessionId, UnixSeconds, UserId};

/// Seconds before a session's start in which its player may have reported the request for playback.
pub(super) const BEFORE_SESSION: i64 = 120;
/// Events whose times differ by more do not belong to one view: the player's clock has jumped.
const CLOCK_JUMP_MILLIS: i64 = 86_400_000;
/// A view without a session whose events arrive within this range of their time is placed by its own clock.
const PLAUSIBLE_DELAY_MILLIS: std::ops::RangeInclusive<i64> = -60_000..=3_600_000;

pub(super) type ViewId = [u8; 16];

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct View {
    pub(super) user: Option<UserId>,
    pub(super) partner: PartnerId,
    pub(super) device: Arc<str>,
    pub(super) labels: SharedLabels,
    /// The id and the start of its session.
    pub(super) session: Option<(SessionId, UnixSeconds)>,
    pub(super) first_received: UnixSeconds,
    pub(super) last_received: UnixSeconds,
    pub(super) ended: Option<(UnixSeconds, bool)>,
    license_refused: bool,
    events: EventsOfView,
    beats: Beats,
}

/// Times in the server's clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Beats {
    last: Option<(UnixSeconds, i64)>,
    /// When the position was first known to advance, in milliseconds.
    advanced: Option<i64>,
    bitrates: Bitrates,
}

impl View {
    pub(super) fn opened(opened: &OpenedSession) -> Self {
        let begin = (opened.user, opened.partner, Arc::clone(&opened.device));
        let mut view = Self::new(begin, opened.at);
        view.session = Some((opened.session, opened.at));
        // From the authenticated preflight; a player's own claims are used only without a session.
        view.labels = opened.labels.clone();
        view
    }

    /// A view without a session.
    pub(super) fn of_events(
        user: UserId,
        partner: PartnerId,
        event: &PlayerEvent,
        at: UnixSeconds,
    ) -> Self {
        let device = event.device.clone().unwrap_or_default();
        let mut view = Self::new((user, partner, device), at);
        view.labels = SharedLabels::from(&event.labels);
        view
    }

    fn new((user, partner, device): (UserId, PartnerId, Arc<str>), at: UnixSeconds) -> Self {
        Self {
            user: Some(user),
            partner,
            device,
            labels: SharedLabels::default(),
            session: None,
            first_received: at,
            last_received: at,
            ended: None,
            license_refused: false,
            events: EventsOfView::default(),
            beats: Beats::default(),
        }
    }

    /// Returns its memory, including its entries in the maps of the state.
    pub(super) fn bytes(&self) -> usize {
        const ENTRIES: usize = 200;
        let lists = self.events.bytes() + self.beats.bitrates.bytes();
        ENTRIES + size_of::<Self>() + self.device.len() + lists
    }

    fn received(&mut self, at: UnixSeconds) {
        self.first_received = self.first_received.min(at);
        self.last_received = self.last_received.max(at);
    }

    pub(super) fn is_running(&self) -> bool {
        self.session.is_some() && self.ended.is_none()
    }

    pub(super) fn end(&mut self, at: UnixSeconds, stopped: bool) {
        self.received(at);
        // The first end counts.
        self.ended.get_or_insert((at, stopped));
    }

    pub(super) fn refuse_license(&mut self, user: &UserId, at: UnixSeconds) {
        // Another user's request for this session is refused too, and says nothing about it; neither does one after its
        // end. The times decide: end and refusal may arrive in either order.
        let before_end = self.ended.is_none_or(|(end, _)| at < end);
        if self.user == Some(*user) && before_end {
            self.received(at);
            self.license_refused = true;
        }
    }

    pub(super) fn beat(&mut self, at: UnixSeconds, position: i64, bitrate: u64) {
        self.received(at);
        let beats = &mut self.beats;
        if let Some((before, earlier)) = beats.last
            && position > earlier
        {
            // It has played for as long as the position has moved, but not longer than since the previous heartbeat.
            let moved = (position - earlier).min(at.since(before).max(0));
            beats.advanced.get_or_insert(millis_of(at) - moved * 1_000);
        }
        // The clock may have been set back.
        if beats.last.is_none_or(|(before, _)| before <= at) {
            beats.last = Some((at, position));
        }
        if (1..=BITRATE_MAX).contains(&bitrate) {
            beats.bitrates.append(millis_of(at), bitrate);
        }
    }

    /// Returns false if the player's clock has jumped, so that the event cannot belong to this view.
    pub(super) fn event(&mut self, event: &PlayerEvent, received: UnixSeconds) -> bool {
        let (at, sequence) = (event.timestamp_millis, event.sequence);
        let anchor = self.events.first.unwrap_or(at);
        if anchor.abs_diff(at) > CLOCK_JUMP_MILLIS.unsigned_abs() {
            return false;
        }
        self.received(received);
        let events: &mut ViewEvents = &mut self.events;
        events.first = Some(anchor.min(at));
        events.last = Some(events.last.map_or(at, |last| last.max(at)));
        // The least delay is closest to the difference of the clocks: an upload can only add to it.
        least(&mut events.delay, millis_of(received).saturating_sub(at));
        if let Some(startup) = event.startup {
            least(&mut events.measured, (at, sequence, startup));
        }
        if let Some(bitrate) = event.bitrate {
            events.bitrates.insert(at, bitrate);
        }
        // Marks before the first frame do not count, so a fold needs its time.
        let begin = events.started.as_ref().map(|(at, ..)| *at);
        let mut mark = |state| events.timeline.insert(at, sequence, state, begin);
        match &event.action {
            PlayerAction::Requested => least(&mut events.requested, at),
            PlayerAction::Started(startup) => {
                mark(PlayState::Playing);
                least(&mut events.started, (at, sequence, *startup));
            }
            PlayerAction::Shown => least(&mut events.started, (at, sequence, None)),
            PlayerAction::InitialWait(Some(wait)) => {
                least(&mut events.initial_wait, (at, sequence, *wait));
            }
            PlayerAction::Waited(wait) => {
                events.waits = events.waits.saturating_add(1);
                if let Some(wait) = wait {
                    events.waited.add(*wait);
                }
            }
            PlayerAction::Waiting => mark(PlayState::Waiting),
            PlayerAction::Paused => mark(PlayState::Paused),
            PlayerAction::Seeking => mark(PlayState::Seeking),
            PlayerAction::Playing => mark(PlayState::Playing),
            PlayerAction::Stopped => {
                // A viewer may play on from the end. The time in between is none of play.
                mark(PlayState::Paused);
                events.stopped = Some(events.stopped.map_or(at, |last| last.max(at)));
            }
            PlayerAction::Failed(code) => {
                // The first failure gives the code; later ones are often its consequences.
                let code = code.clone().unwrap_or_else(|| Arc::from("unknown"));
                least(&mut events.failed, (at, sequence, code));
                events.last_failure = Some(events.last_failure.map_or(at, |last| last.max(at)));
            }
            PlayerAction::BitrateChanged
            | PlayerAction::InitialWait(None)
            | PlayerAction::Alive => {}
        }
        true
    }

    /// Whether to take the application version from an event. The other labels of a session come from its authenticated
    /// preflight.
    pub(super) fn lacks_version(&self, version: &str) -> bool {
        let known = self.labels.get(Dimension::AppVersion);
        // The smallest of several versions counts, so that the order of events does not matter.
        !version.is_empty() && (known.is_empty() || version < &**known)
    }

    pub(super) fn set_version(&mut self, version: &str) {
        let labels = Labels::clone(&self.labels).with(Dimension::AppVersion, version);
        self.labels = SharedLabels::from(&labels);
    }

    /// Whether the view may be the beginning of a session that opens now.
    pub(super) fn precedes(&self, device: &str, at: UnixSeconds) -> bool {
        let events = &self.events;
        self.session.is_none()
            && *self.device == *device
            && events.started.is_none()
            && events.stopped.is_none()
            && (0..=BEFORE_SESSION).contains(&at.since(self.last_received))
    }

    pub(super) fn adopt(&mut self, early: Self) {
        self.set_version(early.labels.get(Dimension::AppVersion));
        // Its other labels are not taken: those of the session come from its preflight.
        self.events = early.events;
    }

    pub(super) fn forget_user(&mut self) {
        self.user = None;
        // The sums stay: without user and device they are not personal data.
        self.device = Arc::default();
    }

    /// Milliseconds to add to a time of the player's clock to get the server's.
    fn shift(&self) -> i64 {
        let events = &self.events;
        let delay = events.delay.unwrap_or(0);
        // The preflight follows the request for playback immediately, so it shows the delay even if all events came late.
        let at_request = match (self.session, events.requested) {
            (Some((_, opened)), Some(requested)) => millis_of(opened) - requested,
            _ => delay,
        };
        delay.min(at_request)
    }

    /// Returns the time of the first frame, in the player's clock.
    fn first_frame(&self) -> Option<i64> {
        let seen = self.beats.advanced.map(|at| at - self.shift());
        self.events.started.as_ref().map(|(at, ..)| *at).or(seen)
    }

    /// An explicit stop is the end, whatever was received after it. One before the first frame is that of another start, and one
    /// after which it played is not the last.
    fn is_end(&self, stopped: i64) -> bool {
        let started = self.events.started.as_ref();
        started.is_none_or(|(at, ..)| *at <= stopped) && !self.events.timeline.plays_after(stopped)
    }

    /// Returns the end or the last report, in the player's clock.
    fn last_sign(&self) -> i64 {
        if let Some(stopped) = self.events.stopped.filter(|at| self.is_end(*at)) {
            return stopped;
        }
        let shift = self.shift();
        let beat = self.beats.last.map(|(at, _)| millis_of(at) - shift);
        let seen = self.events.last.into_iter().chain(beat).max();
        let opened = self.session.map_or(0, |(_, at)| millis_of(at) - shift);
        let seen = seen.unwrap_or(opened);
        match self.ended {
            // Whether it played between its last report and a later end is unknown.
            Some((at, true)) => {
                let end = millis_of(at) - shift;
                end.clamp(seen, seen + ALIVE_SECONDS * 1_000)
            }
            Some((_, false)) | None => seen,
        }
    }

    fn startup_millis(&self, unit: DurationUnit) -> Option<f64> {
        let events = &self.events;
        let (started, _, measured) = events.started.as_ref()?;
        let measured = measured.and_then(|startup| startup.millis(unit));
        let waited = || events.initial_wait.as_ref()?.2.millis(unit);
        let since_request = || {
            let loading = || events.timeline.waits_since().filter(|at| at < started);
            let length = started - events.requested.or_else(loading)?;
            (0..=HOUR * 1_000)
                .contains(&length)
                .then_some(length as f64)
        };
        // A time measured before the first frame is another one: dash.js 5.2 reports the time to its first state.
        let later = |(at, _, _): &&(i64, i64, Reported)| at >= started;
        let apart = || events.measured.as_ref().filter(later)?.2.millis(unit);
        // In order of precision: the player's own measurement, its wait before the first frame, then the time since the request.
        (measured.or_else(apart))
            .or_else(waited)
            .or_else(since_request)
    }

    /// The second in which the view began: its place in the figures.
    pub(super) fn begin(&self) -> UnixSeconds {
        match (self.session, self.events.first) {
            (Some((_, opened)), _) => opened,
            (None, Some(first)) => {
                let delay = self.events.delay.unwrap_or(0);
                // The player's own clock counts if it is plausible, else the time of receipt.
                let shift = if PLAUSIBLE_DELAY_MILLIS.contains(&delay) {
                    0
                } else {
                    delay
                };
                UnixSeconds((first + shift).div_euclid(1_000))
            }
            (None, None) => self.first_received,
        }
    }

    /// Returns the sums of this view, without the liveness of its session. `closed`: no more input is expected.
    pub(super) fn sums(&self, unit: DurationUnit, closed: bool) -> Cell {
        let mut cell = Cell {
            // Only a preflight is an attempt.
            attempts: u32::from(self.session.is_some()),
            ..Cell::default()
        };
        let events = &self.events;
        let failed = events.failed.is_some() || self.license_refused;
        let Some(begin) = self.first_frame() else {
            let over = closed || self.ended.is_some() || events.stopped.is_some();
            if failed {
                cell.start_failures = cell.attempts;
                self.add_code(&mut cell);
            } else if over {
                cell.exits = cell.attempts;
            }
            return cell;
        };
        cell.plays = 1;
        if let Some(startup) = self.startup_millis(unit) {
            cell.startups.record(startup);
        }
        if events.last_failure.is_some_and(|at| at >= begin) {
            cell.playback_failures = 1;
            self.add_code(&mut cell);
        }
        // A heartbeat may show a first frame that is later than the last event.
        let end = self.last_sign().max(begin);
        let spent = events.timeline.spent(begin, end);
        // A player that reports the length of its waits and their states too must not be counted twice.
        let (waits, waited) = match events.waits {
            0 => (spent.waits, spent.waited),
            waits => (waits, events.waited.millis(unit)),
        };
        let played = (end - begin - spent.paused - waited).max(0);
        cell.waits = waits;
        cell.waited_millis = whole(waited);
        cell.played_millis = whole(played);
        let rates = events.bitrates.joined(&self.beats.bitrates, self.shift());
        if let Some(rate) = (!rates.is_empty())
            .then(|| rates.mean(&events.timeline, begin, end))
            .flatten()
        {
            cell.rated_millis = whole(played);
            cell.bits = bits(rate, played);
        }
        cell
    }

    fn add_code(&self, cell: &mut Cell) {
        match &self.events.failed {
            Some((_, _, code)) => cell.add_code(code, 1),
            None => cell.add_code(&Arc::from("license_refused"), 1),
        }
    }

    /// Returns when its session began and when it ended; the end is `None` while it is alive.
    pub(super) fn alive(&self, now: UnixSeconds) -> Option<(UnixSeconds, Option<UnixSeconds>)> {
        let (_, opened) = self.session?;
        let beat = self.beats.last.map_or(opened, |(at, _)| at.max(opened));
        // Without an end, the session lost its slot this long after its last heartbeat.
        let silent = beat + ALIVE_SECONDS;
        let end = self.ended.map_or(silent, |(at, _)| at.min(silent));
        // A session lives for at least a second, since times are in seconds.
        let end = end.max(opened + 1);
        Some((opened, (end <= now).then_some(end)))
    }
}

fn least<T: PartialOrd>(present: &mut Option<T>, other: T) {
    if present.as_ref().is_none_or(|present| other < *present) {
        *present = Some(other);
    }
}

const fn millis_of(at: UnixSeconds) -> i64 {
    at.0.saturating_mul(1_000)
}

fn whole(millis: i64) -> u64 {
    u64::try_from(millis).unwrap_or(0)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates"
)]
fn bits(rate: f64, played_millis: i64) -> u64 {
    (rate * played_millis as f64 / 1_000.0) as u64
}
