//! Dedup window: fingerprints of the events of today and of the seven days before. Players resend unanswered events.
//!
//! Held in memory, a set for each day. The fingerprint files of the segments restore the window at start.

use std::collections::{BTreeMap, HashSet};

use foldhash::fast::RandomState;

use super::model::Fingerprint;

/// Days before the present one whose events are remembered.
const REMEMBERED_DAYS: i64 = 7;

/// Maximum number of fingerprints. They take 330 to 660 MB. Beyond it the oldest day is dropped, which shortens the window.
const FINGERPRINTS_MAX: usize = 32_000_000;

/// A set that grows moves all its entries while uploads wait. So a day is divided: of a million events each part has 16,000.
const PARTS: usize = 64;

/// Keyed at random: otherwise a user could search for events whose fingerprints collide in the table.
type Part = HashSet<u64, RandomState>;

struct DayFingerprints {
    parts: [Part; PARTS],
    /// Counted, since each upload asks for it.
    length: usize,
}

impl DayFingerprints {
    fn new() -> Self {
        Self {
            parts: std::array::from_fn(|_| Part::default()),
            length: 0,
        }
    }

    fn contains(&self, Fingerprint(key): Fingerprint) -> bool {
        let part = self.parts.get(part_of(key));
        part.is_some_and(|part| part.contains(&key))
    }

    fn insert(&mut self, Fingerprint(key): Fingerprint) {
        if let Some(part) = self.parts.get_mut(part_of(key)) {
            self.length += usize::from(part.insert(key));
        }
    }
}

fn part_of(key: u64) -> usize {
    usize::try_from(key).unwrap_or(0) % PARTS
}

pub(super) struct DedupWindow {
    days: BTreeMap<i64, DayFingerprints>,
    most: usize,
}

impl Default for DedupWindow {
    fn default() -> Self {
        Self {
            days: BTreeMap::new(),
            most: FINGERPRINTS_MAX,
        }
    }
}

pub(super) const fn day_of(hour: i64) -> i64 {
    hour.div_euclid(24)
}

/// The oldest day whose events are known in this hour.
pub(super) const fn oldest_day(hour: i64) -> i64 {
    day_of(hour) - REMEMBERED_DAYS
}

impl DedupWindow {
    pub(super) fn knows(&self, fingerprint: Fingerprint, hour: i64) -> bool {
        // Latest days first: most repeats arrive soon. Days in the future exist after the clock was set back.
        let mut days = self.days.range(oldest_day(hour)..).rev();
        days.any(|(_, known)| known.contains(fingerprint))
    }

    pub(super) fn remember(&mut self, fingerprints: &[Fingerprint], hour: i64) {
        if fingerprints.is_empty() {
            return;
        }
        let known = self.days.entry(day_of(hour));
        let known = known.or_insert_with(DayFingerprints::new);
        for fingerprint in fingerprints {
            known.insert(*fingerprint);
        }
        self.forget(oldest_day(hour));
    }

    fn forget(&mut self, oldest: i64) {
        while self
            .days
            .first_key_value()
            .is_some_and(|(day, _)| *day < oldest)
        {
            self.days.pop_first();
        }
        // The last day stays, so that immediate retries are still recognised.
        while self.len() > self.most && self.days.len() > 1 {
            if let Some((day, forgotten)) = self.days.pop_first() {
                tracing::warn!(
                    day,
                    events = forgotten.length,
                    "dedup window is full: dropped its oldest day, whose repeated events will count as new"
                );
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.days.values().map(|known| known.length).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first hour of a day.
    const NOW: i64 = 500_016;
    const DAY: i64 = 24;

    #[test]
    fn events_are_known_on_their_day_and_seven_more() {
        let mut dedup = DedupWindow::default();
        for ago in [400, 169, 168, 1, 0] {
            dedup.remember(&[Fingerprint(u64::try_from(ago).unwrap())], NOW - ago);
        }
        let known = |dedup: &DedupWindow, now| -> Vec<u64> {
            let ids = [0, 1, 2, 168, 169, 400].into_iter();
            ids.filter(|id| dedup.knows(Fingerprint(*id), now))
                .collect()
        };
        assert_eq!(known(&dedup, NOW), [0, 1, 168]);
        assert_eq!(known(&dedup, NOW + DAY - 1), [0, 1, 168]);
        assert_eq!(known(&dedup, NOW + DAY), [0, 1]);
        assert_eq!(dedup.len(), 3);
        dedup.remember(&[Fingerprint(3)], NOW + 8 * DAY);
        assert_eq!(dedup.len(), 1);
    }

    #[test]
    fn a_repeated_event_is_known_from_its_last_arrival() {
        let mut dedup = DedupWindow::default();
        for hour in [NOW, NOW, NOW + 3 * DAY] {
            dedup.remember(&[Fingerprint(1)], hour);
        }
        assert_eq!(dedup.len(), 2);
        assert!(dedup.knows(Fingerprint(1), NOW + 10 * DAY));
        assert!(!dedup.knows(Fingerprint(1), NOW + 11 * DAY));
    }

    #[test]
    fn each_fingerprint_of_a_day_is_found_and_no_other() {
        let mut dedup = DedupWindow::default();
        // Spread, all in one part, and at both ends.
        let keys = (0..5_000).flat_map(|number| [number * (u64::MAX / 5_000), number << 6]);
        let keys: Vec<Fingerprint> = keys.chain([1, u64::MAX]).map(Fingerprint).collect();
        dedup.remember(&keys, NOW);
        assert!(keys.iter().all(|key| dedup.knows(*key, NOW)));
        assert!(!dedup.knows(Fingerprint(2), NOW));
    }

    #[test]
    fn a_full_window_drops_the_oldest_day() {
        let mut dedup = DedupWindow {
            most: 3,
            ..DedupWindow::default()
        };
        for key in 0..3 {
            dedup.remember(&[Fingerprint(key)], NOW - 2 * DAY);
        }
        dedup.remember(&[Fingerprint(10), Fingerprint(11)], NOW);
        assert_eq!(dedup.len(), 2);
        assert!(!dedup.knows(Fingerprint(0), NOW));
        assert!(dedup.knows(Fingerprint(10), NOW));
    }

    #[test]
    fn a_clock_set_back_drops_no_events() {
        let mut dedup = DedupWindow::default();
        dedup.remember(&[Fingerprint(1)], NOW + 1_000);
        dedup.remember(&[Fingerprint(2)], NOW);
        assert!(dedup.knows(Fingerprint(1), NOW));
    }
}
