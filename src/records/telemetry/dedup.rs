//! Dedup window: fingerprints of the events received in the last seven days. Players resend unanswered events.
//!
//! Held in memory by day. New fingerprints of a day are in a hash map; a job merges them into a sorted list, which
//! takes nine and a half bytes an event. The fingerprint files of the segments restore the window at start.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::model::Fingerprint;

/// Maps a fingerprint to the hour of the day in which it was received. The hash is keyed at random: otherwise a user
/// could search for events whose fingerprints collide in the table.
type Fresh = HashMap<u64, u8, RandomState>;

/// Hours for which an event is remembered. The unit is the hour, so an event may be known for up to one hour longer.
pub(super) const REMEMBERED_HOURS: i64 = 7 * 24;

/// Maximum number of fingerprints, about 400 MB. Beyond it the oldest day is dropped, which shortens the window.
const FINGERPRINTS_MAX: usize = 32_000_000;

const HOURS: i64 = 24;

/// A day is merged from this many new fingerprints on, or from this fraction of its sorted list on, whichever is
/// more. This keeps the map small and merges each fingerprint only a few times.
const MERGE_FROM: usize = 65_536;
const MERGE_PART: usize = 16;

/// Sorted fingerprints with an index by their leading bits. Fingerprints are hashes and so evenly distributed: a lookup
/// takes two memory accesses. A binary search of the whole list took a tenth of the time of an upload.
#[derive(Default)]
struct Sorted {
    keys: Vec<u64>,
    hours: Vec<u8>,
    /// For each value of the leading bits, the position of the first key with these or greater bits.
    starts: Vec<u32>,
}

/// Average number of keys with the same leading bits. A cache line has eight.
const KEYS_PER_START: usize = 8;

impl Sorted {
    fn with_capacity(length: usize) -> Self {
        Self {
            keys: Vec::with_capacity(length),
            hours: Vec::with_capacity(length),
            starts: Vec::new(),
        }
    }

    fn hour(&self, key: u64) -> Option<u8> {
        let start = self.start_of(key)?;
        let begin = usize::try_from(*self.starts.get(start)?).ok()?;
        let end = self.starts.get(start + 1);
        let end = end.map_or(self.keys.len(), |end| {
            usize::try_from(*end).unwrap_or(usize::MAX)
        });
        // Not a linear scan: a user can search for events whose fingerprints begin with the same bits.
        let found = self.keys.get(begin..end)?.binary_search(&key).ok()?;
        self.hours.get(begin + found).copied()
    }

    /// Returns the leading bits of a key, which are its index in `starts`.
    fn start_of(&self, key: u64) -> Option<usize> {
        let bits = self.starts.len().checked_ilog2()?;
        usize::try_from(key.checked_shr(u64::BITS - bits).unwrap_or(0)).ok()
    }

    fn push(&mut self, key: u64, hour: u8) {
        self.keys.push(key);
        self.hours.push(hour);
    }

    /// Builds `starts`; call it after the last push.
    fn index(&mut self) {
        let starts = (self.keys.len() / KEYS_PER_START).next_power_of_two();
        self.starts = vec![0; starts];
        let mut next = 0;
        for (place, key) in (0..).zip(&self.keys) {
            let own = self.start_of(*key).unwrap_or(0);
            for start in self.starts.iter_mut().take(own + 1).skip(next) {
                *start = place;
            }
            next = next.max(own + 1);
        }
        let length = u32::try_from(self.keys.len()).unwrap_or(u32::MAX);
        for start in self.starts.iter_mut().skip(next) {
            *start = length;
        }
    }
}

#[derive(Default)]
struct DayFingerprints {
    sorted: Arc<Sorted>,
    /// Fingerprints that a running [`Merge`] moves into the sorted list. They stay known until it ends.
    merging: Option<Arc<Fresh>>,
    fresh: Fresh,
}

impl DayFingerprints {
    fn len(&self) -> usize {
        let merging = self.merging.as_ref().map_or(0, |merging| merging.len());
        self.sorted.keys.len() + merging + self.fresh.len()
    }

    fn hour(&self, key: u64) -> Option<u8> {
        let merging = || self.merging.as_ref()?.get(&key).copied();
        let fresh = self.fresh.get(&key).copied();
        // The newest entry comes first, because it has the latest hour.
        fresh.or_else(merging).or_else(|| self.sorted.hour(key))
    }

    fn merge(&mut self, day: i64) -> Merge {
        // The map is shared and not moved, so that its fingerprints stay known during the merge.
        let fresh = Arc::new(std::mem::take(&mut self.fresh));
        self.merging = Some(Arc::clone(&fresh));
        Merge {
            day,
            sorted: Arc::clone(&self.sorted),
            fresh,
        }
    }
}

/// A merge takes long for a day with many events, so it runs without a lock.
pub(super) struct Merge {
    day: i64,
    sorted: Arc<Sorted>,
    fresh: Arc<Fresh>,
}

impl Merge {
    pub(super) fn run(self) -> Merged {
        // Copied, because uploads read the shared map until the merge is in place.
        let mut fresh: Vec<(u64, u8)> =
            self.fresh.iter().map(|(key, hour)| (*key, *hour)).collect();
        fresh.sort_unstable();
        let length = self.sorted.keys.len() + fresh.len();
        let mut sorted = Sorted::with_capacity(length);
        let known = self.sorted.keys.iter().zip(&self.sorted.hours);
        let mut known = known.map(|(key, hour)| (*key, *hour)).peekable();
        for (key, hour) in fresh {
            while let Some((before, hour)) = known.next_if(|(before, _)| *before < key) {
                sorted.push(before, hour);
            }
            // The latest hour counts: a repeated event is known from its last arrival on.
            let same = known.next_if(|(same, _)| *same == key);
            sorted.push(key, same.map_or(hour, |(_, known)| known.max(hour)));
        }
        for (key, hour) in known {
            sorted.push(key, hour);
        }
        sorted.index();
        Merged {
            day: self.day,
            sorted: Arc::new(sorted),
        }
    }
}

pub(super) struct Merged {
    day: i64,
    sorted: Arc<Sorted>,
}

/// Freeing these takes long, so the caller drops them without the lock.
pub(super) struct Dropped {
    _days: Vec<DayFingerprints>,
    _sorted: Option<Arc<Sorted>>,
    _merging: Option<Arc<Fresh>>,
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

fn split(hour: i64) -> (i64, u8) {
    // Fits: the remainder is below 24.
    let of_day = u8::try_from(hour.rem_euclid(HOURS)).unwrap_or(0);
    (hour.div_euclid(HOURS), of_day)
}

impl DedupWindow {
    /// Returns whether an event was received in the seven days before `hour`.
    pub(super) fn knows(&self, fingerprint: Fingerprint, hour: i64) -> bool {
        let oldest = hour - REMEMBERED_HOURS;
        // Latest days first: most repeats arrive soon. Days in the future exist after the clock was set back.
        self.days
            .range(oldest.div_euclid(HOURS)..)
            .rev()
            .filter_map(|(day, known)| Some(day * HOURS + i64::from(known.hour(fingerprint.0)?)))
            .any(|received| received >= oldest)
    }

    pub(super) fn remember(&mut self, fingerprints: &[Fingerprint], hour: i64) {
        if fingerprints.is_empty() {
            return;
        }
        let (day, of_day) = split(hour);
        let known = self.days.entry(day).or_default();
        let entries = fingerprints
            .iter()
            .map(|fingerprint| (fingerprint.0, of_day));
        known.fresh.extend(entries);
    }

    /// Drops whole days, never single fingerprints: a sorted list is replaced as a whole.
    pub(super) fn forget(&mut self, hour: i64) -> Dropped {
        let oldest = (hour - REMEMBERED_HOURS).div_euclid(HOURS);
        let kept = self.days.split_off(&oldest);
        let forgotten = std::mem::replace(&mut self.days, kept);
        let mut days: Vec<DayFingerprints> = forgotten.into_values().collect();
        // The last day stays, so that immediate retries are still recognised.
        while self.len() > self.most && self.days.len() > 1 {
            if let Some((day, forgotten)) = self.days.pop_first() {
                tracing::warn!(
                    day,
                    events = forgotten.len(),
                    "dedup window is full: dropped its oldest day, whose repeated events will count as new"
                );
                days.push(forgotten);
            }
        }
        Dropped {
            _days: days,
            _sorted: None,
            _merging: None,
        }
    }

    /// Starts a merge if one is due. The caller runs one merge at a time.
    pub(super) fn next_merge(&mut self, hour: i64) -> Option<Merge> {
        let (today, _) = split(hour);
        self.days.iter_mut().find_map(|(day, known)| {
            let least = match *day < today {
                // A past day gets no more events, so one merge is final.
                true => 1,
                false => MERGE_FROM.max(known.sorted.keys.len() / MERGE_PART),
            };
            let due = known.merging.is_none() && known.fresh.len() >= least;
            due.then(|| known.merge(*day))
        })
    }

    pub(super) fn merged(&mut self, merged: Merged) -> Dropped {
        let mut forgotten = Dropped {
            _days: Vec::new(),
            _sorted: None,
            _merging: None,
        };
        match self.days.get_mut(&merged.day) {
            Some(day) => {
                forgotten._sorted = Some(std::mem::replace(&mut day.sorted, merged.sorted));
                forgotten._merging = day.merging.take();
            }
            // The day was dropped during the merge.
            None => forgotten._sorted = Some(merged.sorted),
        }
        forgotten
    }

    /// Drops old keys and merges fresh ones. Only at start-up: it holds the lock throughout.
    pub(super) fn tidy(&mut self, hour: i64) {
        self.forget(hour);
        let with_fresh = |(day, known): (&i64, &mut DayFingerprints)| {
            let due = known.merging.is_none() && !known.fresh.is_empty();
            due.then(|| known.merge(*day))
        };
        let merges: Vec<Merge> = self.days.iter_mut().filter_map(with_fresh).collect();
        for merge in merges {
            let merged = merge.run();
            self.merged(merged);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.days.values().map(DayFingerprints::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 500_000;

    #[test]
    fn events_are_deduplicated_for_seven_days() {
        let mut dedup = DedupWindow::default();
        for ago in [0, 1, 30, 167, 168, 169, 400] {
            dedup.remember(&[Fingerprint(u64::try_from(ago).unwrap())], NOW - ago);
        }
        for tidied in [false, true] {
            for ago in [0_u64, 1, 30, 167, 168] {
                assert!(dedup.knows(Fingerprint(ago), NOW), "{ago} {tidied}");
            }
            for ago in [169, 400, 2] {
                assert!(!dedup.knows(Fingerprint(ago), NOW), "{ago} {tidied}");
            }
            dedup.tidy(NOW);
        }
        // The event of 400 hours ago is gone. That of 169 hours ago remains, since its day is partly inside the window.
        assert_eq!(dedup.len(), 6);
        dedup.tidy(NOW + 1_000);
        assert_eq!(dedup.len(), 0);
    }

    #[test]
    fn repeated_event_is_deduplicated_from_its_last_arrival() {
        let mut dedup = DedupWindow::default();
        dedup.remember(&[Fingerprint(1)], NOW);
        dedup.tidy(NOW);
        dedup.remember(&[Fingerprint(1)], NOW + 3);
        dedup.tidy(NOW + 3);
        assert!(dedup.knows(Fingerprint(1), NOW + 3 + REMEMBERED_HOURS));
        assert_eq!(dedup.len(), 1);
    }

    #[test]
    fn each_key_of_a_sorted_list_is_found_and_no_other() {
        for length in [0_u64, 1, 7, 8, 9, 100, 5_000] {
            // Spread, all with the same leading bits, and at both ends.
            for factor in [u64::MAX / 5_000, 3] {
                let mut sorted = Sorted::default();
                let mut keys: Vec<u64> = (0..length).map(|number| number * factor).collect();
                keys.extend([u64::MAX - 2, u64::MAX]);
                keys.sort_unstable();
                for key in &keys {
                    sorted.push(*key, u8::try_from(key % 24).unwrap());
                }
                sorted.index();
                for key in &keys {
                    assert_eq!(sorted.hour(*key), u8::try_from(key % 24).ok());
                    assert!(keys.contains(&(key ^ 1)) || sorted.hour(key ^ 1).is_none());
                }
            }
        }
        assert_eq!(Sorted::default().hour(0), None);
    }

    #[test]
    fn events_are_known_while_they_are_merged_and_after() {
        let mut dedup = DedupWindow::default();
        for key in 0..3 {
            dedup.remember(&[Fingerprint(key)], NOW);
        }
        // Today has too few fingerprints for a merge until the day is over.
        assert!(dedup.next_merge(NOW).is_none());
        let merge = dedup.next_merge(NOW + HOURS).unwrap();
        assert!(dedup.next_merge(NOW + HOURS).is_none(), "one at a time");
        dedup.remember(&[Fingerprint(2)], NOW + 1);
        dedup.remember(&[Fingerprint(3)], NOW + 1);
        let known = |dedup: &DedupWindow| -> Vec<bool> {
            (0..5)
                .map(|key| dedup.knows(Fingerprint(key), NOW))
                .collect()
        };
        let expected: Vec<bool> = vec![true, true, true, true, false];
        assert_eq!(known(&dedup), expected);
        let merged = merge.run();
        drop(dedup.merged(merged));
        assert_eq!(known(&dedup), expected);
        let merge = dedup.next_merge(NOW + HOURS).unwrap();
        let merged = merge.run();
        drop(dedup.merged(merged));
        assert_eq!(known(&dedup), expected);
        assert_eq!(dedup.len(), 4);
        // A day dropped during its merge does not come back.
        dedup.remember(&[Fingerprint(9)], NOW);
        let merged = dedup.next_merge(NOW + HOURS).unwrap().run();
        drop(dedup.forget(NOW + 1_000));
        drop(dedup.merged(merged));
        assert_eq!(dedup.len(), 0);
    }

    #[test]
    fn many_events_of_today_are_merged_in_parts() {
        let mut dedup = DedupWindow::default();
        let many = u64::try_from(MERGE_FROM).unwrap();
        for key in 0..many {
            assert!(dedup.next_merge(NOW).is_none());
            dedup.remember(&[Fingerprint(key)], NOW);
        }
        let merged = dedup.next_merge(NOW).unwrap().run();
        drop(dedup.merged(merged));
        let day = dedup.days.values().next().unwrap();
        assert_eq!((day.sorted.keys.len(), day.fresh.len()), (MERGE_FROM, 0));
    }

    #[test]
    fn a_full_window_drops_the_oldest_day() {
        let mut dedup = DedupWindow {
            most: 3,
            ..DedupWindow::default()
        };
        for key in 0..3 {
            dedup.remember(&[Fingerprint(key)], NOW - 30);
            dedup.remember(&[Fingerprint(10 + key)], NOW);
        }
        dedup.tidy(NOW);
        assert_eq!(dedup.len(), 3);
        assert!(!dedup.knows(Fingerprint(0), NOW));
        assert!(dedup.knows(Fingerprint(10), NOW));
    }

    #[test]
    fn a_clock_set_back_drops_no_events() {
        let mut dedup = DedupWindow::default();
        dedup.remember(&[Fingerprint(1)], NOW + 1_000);
        dedup.tidy(NOW);
        assert!(dedup.knows(Fingerprint(1), NOW));
    }
}
