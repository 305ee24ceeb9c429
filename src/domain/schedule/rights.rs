//! The schedule's view of the catalogue.

use super::model::Broadcast;
use playgate_types::{BroadcastId, LivestreamId, UnixSeconds, Zone};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BroadcastRights {
    pub live: bool,
    pub catchup: Option<(UnixSeconds, UnixSeconds)>,
    /// Whether it may be watched from its start while on air. It has no member on the wire: clients see that the catch-up
    /// window opens at the start.
    pub start_over: bool,
    pub pause: bool,
    pub rewind: bool,
    pub fast_forward: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelFacts {
    pub zone: Zone,
}

/// Implementations are immutable.
pub trait Rights: Send + Sync {
    fn livestreams(&self) -> Vec<LivestreamId>;

    /// `None` if the livestream is unknown. It is then not served.
    fn channel(&self, livestream: &LivestreamId) -> Option<ChannelFacts>;

    /// Applies the defaults, then rules, then overrides of this broadcast.
    fn rights(&self, livestream: &LivestreamId, broadcast: &Broadcast) -> BroadcastRights;

    /// Whether an operator has set rights of this broadcast.
    fn has_override(&self, _: &BroadcastId) -> bool {
        false
    }

    /// Whether a livestream or an asset has the id, so that no broadcast can have it.
    fn is_taken(&self, id: &str) -> bool;
}
