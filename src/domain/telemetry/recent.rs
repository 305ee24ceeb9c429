//! Which events were received in the last seven days: players send again what they got no answer to.
//!
//! In memory, a day at a time: the hour that is being written in a hash map, the rest as a sorted
//! list of nine bytes an event. Files beside the segments bring it back at a start.

use std::collections::{BTreeMap, HashMap};

use super::model::Fingerprint;

/// Hours for which an event is remembered; the hour is the unit, so up to one more.
pub(super) const REMEMBERED_HOURS: i64 = 7 * 24;

/// Fingerprints that are held at most, some 400 MB. Beyond it the oldest day is forgotten, which
/// shortens the time in which a repeated event is known.
const MOST: usize = 32_000_000;

const HOURS: i64 = 24;

/// The events of one UTC day, by when they were received.
#[derive(Default)]
struct Day {
    sealed: Vec<u64>,
    /// The hour of the day for each of `sealed`.
    hours: Vec<u8>,
    fresh: HashMap<u64, u8>,
}

impl Day {
    fn len(&self) -> usize {
        self.sealed.len() + self.fresh.len()
    }

    fn hour(&self, key: u64) -> Option<u8> {
        let sealed = || {
            let at = self.sealed.binary_search(&key).ok()?;
            self.hours.get(at).copied()
        };
        self.fresh.get(&key).copied().or_else(sealed)
    }

    /// Moves what is fresh into the sorted list.
    fn seal(&mut self) {
        if self.fresh.is_empty() {
            return;
        }
        let mut all: Vec<(u64, u8)> = self.fresh.drain().collect();
        self.fresh = HashMap::new();
        let sealed = std::mem::take(&mut self.sealed);
        all.extend(sealed.into_iter().zip(std::mem::take(&mut self.hours)));
        // By key, the latest hour first: it is the one that counts.
        all.sort_unstable_by_key(|(key, hour)| (*key, std::cmp::Reverse(*hour)));
        all.dedup_by_key(|(key, _)| *key);
        (self.sealed, self.hours) = all.into_iter().unzip();
    }
}

/// The fingerprints of recent events.
pub(super) struct Recent {
    days: BTreeMap<i64, Day>,
    most: usize,
}

impl Default for Recent {
    fn default() -> Self {
        Self {
            days: BTreeMap::new(),
            most: MOST,
        }
    }
}

/// The day and the hour in it of an hour since 1970.
fn split(hour: i64) -> (i64, u8) {
    let of_day = u8::try_from(hour.rem_euclid(HOURS)).unwrap_or(0);
    (hour.div_euclid(HOURS), of_day)
}

impl Recent {
    /// Whether an event was received in the seven days before `hour`.
    pub(super) fn knows(&self, fingerprint: Fingerprint, hour: i64) -> bool {
        let oldest = hour - REMEMBERED_HOURS;
        // The latest days first: what is sent again is sent soon. Days that lie ahead are there
        // when the clock was put back.
        self.days
            .range(oldest.div_euclid(HOURS)..)
            .rev()
            .filter_map(|(day, known)| Some(day * HOURS + i64::from(known.hour(fingerprint.0)?)))
            .any(|received| received >= oldest)
    }

    /// Remembers an event that was received in `hour`.
    pub(super) fn remember(&mut self, fingerprint: Fingerprint, hour: i64) {
        let (day, of_day) = split(hour);
        let known = self.days.entry(day).or_default();
        known.fresh.insert(fingerprint.0, of_day);
    }

    /// Forgets what is over seven days old, or too much, and makes the rest small.
    pub(super) fn tidy(&mut self, hour: i64) {
        let oldest = (hour - REMEMBERED_HOURS).div_euclid(HOURS);
        self.days = self.days.split_off(&oldest);
        for day in self.days.values_mut() {
            day.seal();
        }
        while self.len() > self.most && self.days.len() > 1 {
            if let Some((day, forgotten)) = self.days.pop_first() {
                tracing::warn!(
                    day,
                    events = forgotten.len(),
                    "too many events to remember; repeats of that day's are taken as new"
                );
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.days.values().map(Day::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 500_000;

    #[test]
    fn an_event_is_known_for_seven_days() {
        let mut recent = Recent::default();
        for ago in [0, 1, 30, 167, 168, 169, 400] {
            recent.remember(Fingerprint(u64::try_from(ago).unwrap()), NOW - ago);
        }
        for tidied in [false, true] {
            for ago in [0_u64, 1, 30, 167, 168] {
                assert!(recent.knows(Fingerprint(ago), NOW), "{ago} {tidied}");
            }
            for ago in [169, 400, 2] {
                assert!(!recent.knows(Fingerprint(ago), NOW), "{ago} {tidied}");
            }
            recent.tidy(NOW);
        }
        // 400 hours ago is gone; 169 lies in a day of which a part is still remembered.
        assert_eq!(recent.len(), 6);
        recent.tidy(NOW + 1_000);
        assert_eq!(recent.len(), 0);
    }

    #[test]
    fn an_event_that_came_again_is_known_from_then_on() {
        let mut recent = Recent::default();
        recent.remember(Fingerprint(1), NOW);
        recent.tidy(NOW);
        recent.remember(Fingerprint(1), NOW + 3);
        recent.tidy(NOW + 3);
        assert!(recent.knows(Fingerprint(1), NOW + 3 + REMEMBERED_HOURS));
        assert_eq!(recent.len(), 1);
    }

    #[test]
    fn too_many_events_push_out_the_oldest_day() {
        let mut recent = Recent {
            most: 3,
            ..Recent::default()
        };
        for key in 0..3 {
            recent.remember(Fingerprint(key), NOW - 30);
            recent.remember(Fingerprint(10 + key), NOW);
        }
        recent.tidy(NOW);
        assert_eq!(recent.len(), 3);
        assert!(!recent.knows(Fingerprint(0), NOW));
        assert!(recent.knows(Fingerprint(10), NOW));
    }

    #[test]
    fn a_clock_that_was_put_back_forgets_nothing() {
        let mut recent = Recent::default();
        recent.remember(Fingerprint(1), NOW + 1_000);
        recent.tidy(NOW);
        assert!(recent.knows(Fingerprint(1), NOW));
    }
}
