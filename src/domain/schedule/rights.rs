//! What the schedule needs to know of the catalogue.

use chrono_tz::Tz;

use super::model::Broadcast;
use crate::types::{LivestreamId, UnixSeconds};

/// What may be done with a broadcast, as its answers say it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BroadcastRights {
    /// The wire's `liveAvailable`.
    pub live: bool,
    /// From when to when catch-up may be played; absent where there is no such right.
    pub catchup: Option<(UnixSeconds, UnixSeconds)>,
    /// Whether it may be watched from its start while it is on air. It has no member on the wire:
    /// clients see that the catch-up window opens at the start.
    pub start_over: bool,
    /// The wire's `extendedRights.pause`.
    pub pause: bool,
    /// The wire's `extendedRights.rewind`.
    pub rewind: bool,
    /// The wire's `extendedRights.fastForward`.
    pub fast_forward: bool,
}

/// What the catalogue says about a livestream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelFacts {
    /// The zone that its tv days are of.
    pub zone: Tz,
}

/// A view of the catalogue that does not change while it is held.
pub trait Rights: Send + Sync {
    /// Every livestream there is: those without a guide are known too.
    fn livestreams(&self) -> Vec<LivestreamId>;

    /// What is known of a livestream; `None` if it is unknown, and then nothing of it is served.
    fn channel(&self, livestream: &LivestreamId) -> Option<ChannelFacts>;

    /// The rights in a broadcast: defaults, then rules, then its own.
    fn rights(&self, livestream: &LivestreamId, broadcast: &Broadcast) -> BroadcastRights;

    /// Whether an id is that of a livestream or an asset, and so cannot be a broadcast's.
    fn is_taken(&self, id: &str) -> bool;
}
