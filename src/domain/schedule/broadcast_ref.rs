//! A broadcast as playback needs it, taken from the schedule without reading its JSON.

use std::sync::Arc;

use super::channel::{Allowed, Channel};
use crate::types::{BroadcastId, LivestreamId, UnixSeconds};

/// A broadcast as playback needs it: its times, rating and rights.
#[derive(Clone)]
pub struct Program {
    channel: Arc<Channel>,
    index: usize,
    start: UnixSeconds,
    stop: UnixSeconds,
    pg_age: Option<u8>,
    allowed: Allowed,
    catchup: Option<(UnixSeconds, UnixSeconds)>,
}

impl Program {
    pub(super) fn new(channel: &Arc<Channel>, index: usize) -> Option<Self> {
        let start = *channel.starts.get(index)?;
        let entry = channel.entries.get(index)?;
        Some(Self {
            index,
            start,
            stop: entry.stop,
            pg_age: entry.pg_age,
            allowed: entry.allowed,
            catchup: entry.catchup,
            channel: Arc::clone(channel),
        })
    }

    /// The broadcast's id.
    #[must_use]
    pub fn id(&self) -> Option<BroadcastId> {
        // It was one when it was stored.
        BroadcastId::parse(&self.channel.id(self.index)).ok()
    }

    /// The livestream that carries it.
    #[must_use]
    pub fn livestream(&self) -> &LivestreamId {
        &self.channel.livestream
    }

    /// Its title.
    #[must_use]
    pub fn title(&self) -> String {
        self.channel.title(self.index).into_owned()
    }

    /// Its first second.
    #[must_use]
    pub fn start(&self) -> UnixSeconds {
        self.start
    }

    /// The first second after it.
    #[must_use]
    pub fn stop(&self) -> UnixSeconds {
        self.stop
    }

    /// From what age on it may be seen without a PIN, if it is rated.
    #[must_use]
    pub fn pg_age(&self) -> Option<u8> {
        self.pg_age
    }

    /// Whether it may be played live.
    #[must_use]
    pub fn live(&self) -> bool {
        self.allowed.live()
    }

    /// Whether it may be watched from its start while it is on air.
    #[must_use]
    pub fn start_over(&self) -> bool {
        self.allowed.start_over()
    }

    /// Whether a viewer may go back in it while it is on air, given that it may be played live.
    #[must_use]
    pub fn rewind(&self) -> bool {
        self.allowed.rewind()
    }

    /// From when to when its catch-up may be played, if at all.
    #[must_use]
    pub fn catchup(&self) -> Option<(UnixSeconds, UnixSeconds)> {
        self.catchup
    }
}
