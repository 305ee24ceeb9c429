//! Counts recent login failures by network, so that jobs of password guessers wait behind those of others. A wrong
//! guess counts 8, a job that was refused because the queue was full counts 1.
//!
//! A fixed array of counters that halve every minute. Two networks may share a counter: an innocent network
//! is then slowed down a little, and no guesser escapes. There are enough counters that a flood from a
//! thousand networks slows down one innocent network in 65.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::worker_pool::fair_queue::{ClientNetwork, LoginStanding};
use playgate_types::UnixSeconds;

const COUNTERS: usize = 65_536;
/// Weight of a wrong guess. A refusal has the weight 1: a refused flood returns immediately, and without that weight it
/// would keep others out until each of its networks had completed a guess.
const GUESS_WEIGHT: u64 = 8;
/// A network is doubtful from this count on. Users also retry a few times.
const DOUBTFUL_FROM: u64 = GUESS_WEIGHT;
/// A network is suspect from this count on. Single users also mistype.
const SUSPECT_FROM: u64 = 8 * GUESS_WEIGHT;
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
    pub fn record_guess(&self, network: ClientNetwork, now: UnixSeconds) {
        self.add(network, now, |count| count + GUESS_WEIGHT);
    }

    /// Refusals alone make no network suspect: a network of many users is refused often after an outage.
    pub fn record_refusal(&self, network: ClientNetwork, now: UnixSeconds) {
        self.add(network, now, |count| {
            count.max((count + 1).min(SUSPECT_FROM - 1))
        });
    }

    fn add(&self, network: ClientNetwork, now: UnixSeconds, more: impl Fn(u64) -> u64) {
        let minute = minute(now);
        if let Some(counter) = self.counter(network) {
            let add = |old| {
                let count = more(count(old, minute)).min(u64::from(u32::MAX));
                Some(minute << 32 | count)
            };
            // The closure always returns `Some`.
            let _ = counter.fetch_update(Relaxed, Relaxed, add);
        }
    }

    pub fn standing(&self, network: ClientNetwork, now: UnixSeconds) -> LoginStanding {
        let counter = self.counter(network).map_or(0, |of| of.load(Relaxed));
        match count(counter, minute(now)) {
            0..DOUBTFUL_FROM => LoginStanding::Clean,
            DOUBTFUL_FROM..SUSPECT_FROM => LoginStanding::Doubtful,
            SUSPECT_FROM.. => LoginStanding::Suspect,
        }
    }

    fn counter(&self, network: ClientNetwork) -> Option<&AtomicU64> {
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

    const NOW: UnixSeconds = UnixSeconds(1_767_225_600);

    fn network(n: u8) -> ClientNetwork {
        ClientNetwork::from_address(IpAddr::from([198, 51, n, 1]))
    }

    #[test]
    fn a_network_is_doubtful_then_suspect_while_its_guesses_are_recent() {
        use LoginStanding::{Clean, Doubtful, Suspect};
        let failures = RecentFailures::default();
        assert_eq!(failures.standing(network(1), NOW), Clean);
        for n in 1..8 {
            failures.record_guess(network(1), NOW);
            assert_eq!(failures.standing(network(1), NOW), Doubtful, "{n}");
        }
        failures.record_guess(network(1), NOW);
        for (minutes, expected) in [(0, Suspect), (1, Doubtful), (3, Doubtful), (4, Clean)] {
            let later = NOW + minutes * MINUTE;
            assert_eq!(failures.standing(network(1), later), expected, "{minutes}");
        }
        for _ in 0..80 {
            failures.record_guess(network(1), NOW);
        }
        assert_eq!(failures.standing(network(1), NOW + 3 * MINUTE), Suspect);
        assert_eq!(failures.standing(network(1), NOW + 4 * MINUTE), Doubtful);
        // The clock may go back.
        assert_eq!(failures.standing(network(1), NOW + -MINUTE), Suspect);
    }

    #[test]
    fn refusals_make_a_network_doubtful_and_never_suspect() {
        use LoginStanding::{Clean, Doubtful, Suspect};
        let failures = RecentFailures::default();
        for n in 1..1_000 {
            failures.record_refusal(network(1), NOW);
            let expected = if n < 8 { Clean } else { Doubtful };
            assert_eq!(failures.standing(network(1), NOW), expected, "{n}");
        }
        failures.record_guess(network(1), NOW);
        failures.record_refusal(network(1), NOW);
        assert_eq!(failures.standing(network(1), NOW), Suspect);
    }
}
