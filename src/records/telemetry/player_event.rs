//! What a player reports of a playback: the part of an event that counts for figures.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::dimensions::Labels;
use playgate_types::DurationUnit;

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
    pub fn in_unit_of_partner(duration: f64) -> Option<Self> {
        Self::new(duration, false)
    }

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
    pub(crate) const fn split(self) -> (u64, u64) {
        if self.is_millis {
            (0, self.thousandths)
        } else {
            (self.thousandths, 0)
        }
    }

    /// `None` if no wait can be so long in this unit.
    pub(crate) fn millis(self, unit: DurationUnit) -> Option<f64> {
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
