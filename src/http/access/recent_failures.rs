//! Counts recent login failures by network, so that jobs of password guessers wait behind those of others.
//!
//! A fixed array of counters that halve every minute. Two networks may share a counter: an innocent network
//! is then slowed down a little, and no guesser escapes.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::types::UnixSeconds;
use crate::worker_pool::fair_queue::Network;

const COUNTERS: usize = 4_096;
/// A network is suspect from this count on. Single users also mistype.
const MANY: u64 = 8;
const MINUTE: i64 = 60;

/// Each counter holds the minute of its last change in its upper bits and the count in its lower bits.
pub struct RecentFailures {
    counters: Box<[AtomicU64]>,
    hasher: RandomState,
}

impl Default for RecentFailures {
    fn default() -> Self {
        Self {
            counters: (0..COUNTERS).map(|_| AtomicU64::new(0)).collect(),
            hasher: RandomState::new(),
        }
    }
}

impl RecentFailures {
    pub fn record(&self, network: Network, now: UnixSeconds) {
        let minute = minute(now);
        if let Some(counter) = self.counter(network) {
            let add = |old| Some(minute << 32 | (count(old, minute) + 1).min(u64::from(u32::MAX)));
            // The closure always returns `Some`.
            let _ = counter.fetch_update(Relaxed, Relaxed, add);
        }
    }

    /// Whether the network has many recent failures.
    #[must_use]
    pub fn is_suspect(&self, network: Network, now: UnixSeconds) -> bool {
        let counter = self.counter(network).map_or(0, |of| of.load(Relaxed));
        count(counter, minute(now)) >= MANY
    }

    fn counter(&self, network: Network) -> Option<&AtomicU64> {
        let counters = u64::try_from(COUNTERS).unwrap_or(1);
        let at = self.hasher.hash_one(network) % counters;
        self.counters.get(usize::try_from(at).unwrap_or(0))
    }
}

fn minute(now: UnixSeconds) -> u64 {
    u64::try_from(now.0 / MINUTE).unwrap_or(0) & u64::from(u32::MAX)
}

/// Returns the count, halved for each minute since its last change.
fn count(counter: u64, minute: u64) -> u64 {
    let halved = minute.saturating_sub(counter >> 32).min(63);
    (counter & u64::from(u32::MAX)) >> halved
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn a_network_is_suspect_while_its_failures_are_recent() {
        let failures = RecentFailures::default();
        let network = |n: u8| Network::from_address(IpAddr::from([198, 51, n, 1]));
        let now = UnixSeconds(1_767_225_600);
        for n in 1..MANY {
            failures.record(network(1), now);
            assert!(!failures.is_suspect(network(1), now), "{n}");
        }
        failures.record(network(1), now);
        assert!(failures.is_suspect(network(1), now));
        assert!(!failures.is_suspect(network(1), now + MINUTE));
        for _ in 0..10 * MANY {
            failures.record(network(1), now);
        }
        assert!(failures.is_suspect(network(1), now + 3 * MINUTE));
        assert!(!failures.is_suspect(network(1), now + 4 * MINUTE));
        // The clock may go back.
        assert!(failures.is_suspect(network(1), now + -MINUTE));
    }
}
