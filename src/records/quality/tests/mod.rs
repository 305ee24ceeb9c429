//! The figures as a whole, with files in a temporary directory.

mod audience;
mod copies;
mod inputs;
mod month;
mod orders;
mod restart;

use std::path::Path;

use super::*;
use crate::telemetry::dimensions::SharedLabels;

/// Noon of a day, so that a test of some hours stays in one day.
pub(super) const NOON: UnixSeconds = UnixSeconds(1_800_014_400);

pub(super) fn open(directory: &Path) -> Quality {
    let settings = QualitySettings {
        directory: directory.to_owned(),
        sync: false,
        unit_of: Box::new(|_| DurationUnit::Millis),
    };
    Quality::open(settings).unwrap()
}

impl Quality {
    pub(super) fn stored(&self, sender: EventSender, event: PlayerEvent, received: UnixSeconds) {
        self.stored_all(sender, &mut std::iter::once(Box::new(event)), received);
    }
}

pub(super) fn all() -> QualityQuery {
    QualityQuery {
        from: NOON - DAY,
        to: NOON + DAY,
        by: Vec::new(),
        filters: Vec::new(),
        step: None,
    }
}

pub(super) fn figures(quality: &Quality, now: UnixSeconds) -> Figures {
    quality.report(&all(), now).unwrap().total.figures
}

pub(super) fn user(number: u64) -> UserId {
    let mut bytes = [7; 16];
    bytes[8..].copy_from_slice(&number.to_be_bytes());
    UserId::from_bytes(bytes)
}

pub(super) fn session(number: u64) -> SessionId {
    SessionId::from_bytes(*user(number).as_bytes())
}

pub(super) fn partner() -> PartnerId {
    PartnerId::from_bytes([9; 16])
}

pub(super) fn opened(number: u64, at: UnixSeconds, labels: Labels) -> OpenedSession {
    OpenedSession {
        session: session(number),
        user: user(number),
        partner: partner(),
        device: Arc::from("tv"),
        at,
        labels: SharedLabels::from(&labels.with(Dimension::Asset, "news")),
    }
}

pub(super) fn event(
    number: u64,
    at_millis: i64,
    sequence: i64,
    action: PlayerAction,
) -> PlayerEvent {
    PlayerEvent {
        action,
        session: Some(Arc::from(session(number).to_string().as_str())),
        device: Some(Arc::from("tv")),
        timestamp_millis: at_millis,
        sequence,
        bitrate: None,
        startup: None,
        labels: Labels::default().with(Dimension::Asset, "news"),
    }
}

pub(super) fn sender(number: u64) -> EventSender {
    EventSender {
        user: user(number),
        partner: partner(),
    }
}

/// A random number generator with a seed (SplitMix64).
pub(super) struct Chance(pub u64);

impl Chance {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, bound: i64) -> i64 {
        i64::try_from(self.next() % u64::try_from(bound).unwrap()).unwrap()
    }

    pub(super) fn percent(&mut self, share: i64) -> bool {
        self.below(100) < share
    }
}
