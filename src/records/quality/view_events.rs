//! What a view keeps of the events that its player has reported.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::timeline::{Bitrates, Timeline};
use crate::telemetry::Reported;
use playgate_types::DurationUnit;

/// Times in milliseconds of the player's clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct ViewEvents {
    pub(super) first: Option<i64>,
    pub(super) last: Option<i64>,
    /// The least delay between an event and its receipt.
    pub(super) delay: Option<i64>,
    pub(super) requested: Option<i64>,
    pub(super) started: Option<(i64, i64, Option<Reported>)>,
    /// The start-up time, if the player reports it separately.
    pub(super) measured: Option<(i64, i64, Reported)>,
    pub(super) initial_wait: Option<(i64, i64, Reported)>,
    pub(super) stopped: Option<i64>,
    pub(super) failed: Option<(i64, i64, Arc<str>)>,
    pub(super) last_failure: Option<i64>,
    pub(super) waits: u32,
    pub(super) waited: ReportedSum,
    pub(super) timeline: Timeline,
    pub(super) bitrates: Bitrates,
}

/// The sums of the events that a player has reported. Many players report none, and the sums are half of a view.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct EventsOfView(Option<Box<ViewEvents>>);

impl EventsOfView {
    pub(super) fn bytes(&self) -> usize {
        let boxed = self.0.as_ref().map_or(0, |_| size_of::<ViewEvents>());
        boxed + self.timeline.bytes() + self.bitrates.bytes()
    }
}

static NO_EVENTS: LazyLock<ViewEvents> = LazyLock::new(ViewEvents::default);

impl Deref for EventsOfView {
    type Target = ViewEvents;

    fn deref(&self) -> &ViewEvents {
        self.0.as_deref().unwrap_or(&NO_EVENTS)
    }
}

impl DerefMut for EventsOfView {
    fn deref_mut(&mut self) -> &mut ViewEvents {
        self.0.get_or_insert_default()
    }
}

impl Serialize for EventsOfView {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for EventsOfView {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let events = ViewEvents::deserialize(deserializer)?;
        Ok(Self((events != *NO_EVENTS).then(|| Box::new(events))))
    }
}

/// Sums of reported durations, by the unit that they are in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ReportedSum {
    in_unit: u64,
    in_millis: u64,
}

impl ReportedSum {
    pub(super) fn add(&mut self, reported: Reported) {
        let (in_unit, in_millis) = reported.split();
        self.in_unit += in_unit;
        self.in_millis += in_millis;
    }

    pub(super) fn millis(self, unit: DurationUnit) -> i64 {
        let in_unit = match unit {
            DurationUnit::Seconds => self.in_unit,
            DurationUnit::Millis => self.in_unit / 1_000,
        };
        i64::try_from(in_unit + self.in_millis / 1_000).unwrap_or(i64::MAX)
    }
}
