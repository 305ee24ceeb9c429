//! A reference to a broadcast in the schedule, for playback. Its fields are read without parsing JSON.

use std::sync::Arc;

use super::channel::{Allowed, Channel};
use crate::types::{BroadcastId, LivestreamId, UnixSeconds};

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

    #[must_use]
    pub fn id(&self) -> Option<BroadcastId> {
        // Ids are validated before they are stored.
        BroadcastId::parse(&self.channel.id(self.index)).ok()
    }

    #[must_use]
    pub fn livestream(&self) -> &LivestreamId {
        &self.channel.livestream
    }

    #[must_use]
    pub fn title(&self) -> String {
        self.channel.title(self.index).into_owned()
    }

    #[must_use]
    pub fn start(&self) -> UnixSeconds {
        self.start
    }

    #[must_use]
    pub fn stop(&self) -> UnixSeconds {
        self.stop
    }

    #[must_use]
    pub fn pg_age(&self) -> Option<u8> {
        self.pg_age
    }

    #[must_use]
    pub fn live(&self) -> bool {
        self.allowed.live()
    }

    /// From its start, while on air.
    #[must_use]
    pub fn start_over(&self) -> bool {
        self.allowed.start_over()
    }

    #[must_use]
    pub fn rewind(&self) -> bool {
        self.allowed.rewind()
    }

    #[must_use]
    pub fn catchup(&self) -> Option<(UnixSeconds, UnixSeconds)> {
        self.catchup
    }
}
