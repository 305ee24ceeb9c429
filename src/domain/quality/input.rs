//! The inputs of the figures: sessions, heartbeats, refused licenses and events of players.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::dimensions::{Dimension, Labels};
use crate::domain::playback::Session;
use crate::types::{Country, DurationUnit, PartnerId, SessionId, UnixSeconds, UserId};

/// Bits per second. Higher values are player errors; a single one would make the mean of many players useless.
pub const BITRATE_MAX: u64 = 1_000_000_000;
/// Longer durations are player errors.
const LONGEST_MILLIS: u64 = 86_400_000;

/// A duration as it was reported, in thousandths of its unit: sums of integers do not depend on their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Reported {
    thousandths: u64,
    /// Milliseconds by definition, whatever unit the partner has set.
    is_millis: bool,
}

impl Reported {
    /// In the unit of the player's partner. `None` if no wait can be so long.
    #[must_use]
    pub fn in_unit_of_partner(duration: f64) -> Option<Self> {
        Self::new(duration, false)
    }

    #[must_use]
    pub fn in_millis(duration: f64) -> Option<Self> {
        Self::new(duration, true)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked"
    )]
    fn new(duration: f64, is_millis: bool) -> Option<Self> {
        let possible = (0.0..=LONGEST_MILLIS as f64).contains(&duration);
        possible.then(|| Self {
            thousandths: (duration * 1_000.0).round() as u64,
            is_millis,
        })
    }

    /// Thousandths in the partner's unit, and in milliseconds.
    pub(super) const fn split(self) -> (u64, u64) {
        if self.is_millis {
            (0, self.thousandths)
        } else {
            (self.thousandths, 0)
        }
    }

    /// `None` if no wait can be so long in this unit.
    pub(super) fn millis(self, unit: DurationUnit) -> Option<f64> {
        let millis = match unit {
            DurationUnit::Seconds if !self.is_millis => self.thousandths as f64,
            DurationUnit::Seconds | DurationUnit::Millis => self.thousandths as f64 / 1_000.0,
        };
        (millis <= LONGEST_MILLIS as f64).then_some(millis)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlayerAction {
    Requested,
    /// The first frame, with the start-up time if the player measured it.
    Started(Option<Reported>),
    InitialWait(Option<Reported>),
    /// A wait in mid-play, reported after its end.
    Waited(Option<Reported>),
    /// A wait in mid-play begins. Any other state ends it.
    Waiting,
    Paused,
    /// A seek. Waiting for its media is not a wait in mid-play.
    Seeking,
    Playing,
    BitrateChanged,
    Stopped,
    Failed(Option<Arc<str>>),
    /// Shows only that the player is alive.
    Alive,
    /// A frame was shown at some earlier time. The current state is unknown.
    Shown,
}

/// A player event that counts for the figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlayerEvent {
    pub action: PlayerAction,
    /// `context.session_id`.
    pub session: Option<Arc<str>>,
    pub device: Option<Arc<str>>,
    pub timestamp_millis: i64,
    pub sequence: i64,
    pub bitrate: Option<u64>,
    /// The start-up time, which some players report after the start.
    pub startup: Option<Reported>,
    /// Labels as the player claims them. A view with a session takes only the application version from them.
    pub labels: Labels,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenedSession {
    pub session: SessionId,
    pub user: UserId,
    pub partner: PartnerId,
    pub device: Arc<str>,
    pub at: UnixSeconds,
    pub labels: Labels,
}

impl OpenedSession {
    #[must_use]
    pub fn new(session: &Session, country: Option<Country>) -> Self {
        let start = &session.start;
        let livestream = start.playing.livestream().map_or("", |id| id.as_str());
        let labels = Labels::default()
            .with(Dimension::Asset, start.asset.as_str())
            .with(Dimension::Livestream, livestream)
            .with(Dimension::Platform, &start.device.platform)
            .with(Dimension::DeviceType, &start.device.kind)
            .with(Dimension::DeviceModel, &start.device.model)
            .with(Dimension::Partner, &start.partner.to_string())
            .with(Dimension::Protocol, start.protocol.as_str())
            .with(Dimension::Drm, start.drm.as_str())
            .with(
                Dimension::Country,
                country.as_ref().map_or("", Country::as_str),
            );
        Self {
            session: session.id,
            user: session.user,
            partner: start.partner,
            device: Arc::from(start.device.id.as_str()),
            at: start.since,
            labels,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum QualityInput {
    Opened(Box<OpenedSession>),
    Beat {
        session: SessionId,
        at: UnixSeconds,
        position: i64,
        bitrate: u64,
    },
    /// `stopped`: ended by its player, not by expiry or another session.
    Ended {
        session: SessionId,
        at: UnixSeconds,
        stopped: bool,
    },
    LicenseRefused {
        user: UserId,
        session: SessionId,
        at: UnixSeconds,
    },
    Event {
        user: UserId,
        partner: PartnerId,
        received: UnixSeconds,
        event: Box<PlayerEvent>,
    },
    Erased(UserId),
    /// Closes the views that ended long enough ago. Ticks are logged, so that a replay closes views at the same place.
    Tick(UnixSeconds),
}
