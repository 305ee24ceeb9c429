//! The schedule's view of the catalogue.

use chrono_tz::Tz;

use super::model::Broadcast;
use crate::types::{LivestreamId, UnixSeconds};

/// The rights in a broadcast.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BroadcastRights {
    /// The wire's `liveAvailable`.
    pub live: bool,
    /// Catch-up window; `None` without catch-up rights.
    pub catchup: Option<(UnixSeconds, UnixSeconds)>,
    /// Whether it may be watched from its start while on air. It has no member on the wire: clients see that the
    /// catch-up window opens at the start.
    pub start_over: bool,
    /// The wire's `extendedRights.pause`.
    pub pause: bool,
    /// The wire's `extendedRights.rewind`.
    pub rewind: bool,
    /// The wire's `extendedRights.fastForward`.
    pub fast_forward: bool,
}

/// Catalogue data of a livestream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelFacts {
    /// Time zone of its TV days.
    pub zone: Tz,
}

/// An immutable view of the catalogue.
pub trait Rights: Send + Sync {
    /// Returns all livestreams, including those without a guide.
    fn livestreams(&self) -> Vec<LivestreamId>;

    /// Returns the data of a livestream; `None` if it is unknown, and then it is not served.
    fn channel(&self, livestream: &LivestreamId) -> Option<ChannelFacts>;

    /// Returns the rights in a broadcast: defaults, then rules, then overrides of this broadcast.
    fn rights(&self, livestream: &LivestreamId, broadcast: &Broadcast) -> BroadcastRights;

    /// Returns whether a livestream or asset has this id, so that no broadcast can have it.
    fn is_taken(&self, id: &str) -> bool;
}
