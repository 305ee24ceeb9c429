//! What a member knows of its place in the fleet, for those who serve its clients.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::watch;

use super::claim::DriverState;

/// The state of a member, as seen by its clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The member follows the owner; `None` if there is no owner.
    Standby { owner: Option<String> },
    /// The member has applied everything, and serves.
    Owner,
    /// The member was the owner. Its services may lack changes of the next owner in memory.
    Deposed,
}

impl Standing {
    pub fn follow(standing: &watch::Sender<Self>, owner: Option<String>) {
        let next = Self::Standby { owner };
        standing.send_if_modified(|standing| {
            let differs = *standing != next;
            *standing = next;
            differs
        });
    }
}

/// Tells whether the store of a follower is up to date.
#[derive(Clone)]
pub struct FollowerState(Arc<DriverState>);

impl FollowerState {
    pub(super) const fn new(shared: Arc<DriverState>) -> Self {
        Self(shared)
    }

    /// Waits until the store has every change that was acknowledged before this call. Returns false if that is not known
    /// within the time.
    pub async fn catch_up(&self, within: Duration) -> bool {
        self.0.caught_up(within).await
    }

    /// Whether the store was up to date at some moment within the last time.
    pub fn has_followed_within(&self, time: Duration) -> bool {
        self.0.has_followed_within(time)
    }

    /// Number of the last commit that readers of the store see.
    pub fn commit(&self) -> u64 {
        self.0.published.load(Ordering::Acquire)
    }

    /// Counts a request of a client, for the record of this member.
    pub fn count(&self, is_answered_here: bool) {
        let counter = match is_answered_here {
            true => &self.0.answered_here,
            false => &self.0.forwarded,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
