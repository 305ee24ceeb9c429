//! Decides which entries of the shared log the owner removes: about the newest `fleet.log_keep` bytes stay.
//!
//! A process counts the entries that it applies. Those from before its start are measured in etcd, the newest first, so
//! that the bound holds however often members restart.

use std::collections::VecDeque;
use std::ops::Range;

/// Entries are removed in parts of about this size, or of a quarter of the bound.
const PART_BYTES: u64 = 1024 * 1024;
/// Bytes that one measurement should read.
const WINDOW_BYTES: u64 = 1024 * 1024;
/// A window of this many entries of the maximum size is below the limit of one response.
const WINDOW_MIN: u64 = 16;
const WINDOW_MAX: u64 = 1_024;

/// Consecutive entries: from `first` up to the next part.
struct Part {
    first: u64,
    bytes: u64,
}

pub(super) struct Retention {
    keep: u64,
    parts: VecDeque<Part>,
    /// `ReplicaStatus::bytes` that is counted.
    counted: u64,
    /// Numbers below this one are not measured; `None` once all are.
    unmeasured: Option<u64>,
    window: u64,
}

impl Retention {
    /// Begins to count after the commit `number`.
    pub(super) fn new(keep: u64, number: u64) -> Self {
        let first = number.saturating_add(1);
        Self {
            keep,
            parts: VecDeque::from([Part { first, bytes: 0 }]),
            counted: 0,
            unmeasured: Some(first),
            window: WINDOW_MIN,
        }
    }

    const fn part_bytes(&self) -> u64 {
        let quarter = self.keep / 4;
        if quarter < PART_BYTES {
            quarter
        } else {
            PART_BYTES
        }
    }

    /// Counts the entries up to `number`. `bytes` is the size of all that were applied since the start.
    pub(super) fn count(&mut self, number: u64, bytes: u64) {
        let new = bytes.saturating_sub(self.counted);
        self.counted = bytes;
        let limit = self.part_bytes();
        if let Some(last) = self.parts.back_mut() {
            last.bytes += new;
            if last.bytes >= limit && number >= last.first {
                let first = number + 1;
                self.parts.push_back(Part { first, bytes: 0 });
            }
        }
    }

    fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }

    /// Returns the numbers of the entries to measure next.
    pub(super) fn window(&self) -> Option<Range<u64>> {
        let end = self.unmeasured.filter(|_| self.bytes() <= self.keep)?;
        (end > 1).then(|| end.saturating_sub(self.window).max(1)..end)
    }

    /// Processes the sizes of the entries that etcd has in a [window](Self::window).
    pub(super) fn measured(&mut self, window: &Range<u64>, sizes: &[(u64, u64)]) {
        let bytes = sizes.iter().map(|(_, bytes)| *bytes).sum::<u64>();
        let first = sizes.first().map_or(window.end, |(number, _)| *number);
        // The log begins within the window, or before the first number.
        let is_last = first > window.start || window.start <= 1;
        self.unmeasured = (!is_last).then_some(window.start);
        let limit = self.part_bytes();
        match self.parts.front_mut() {
            Some(oldest) if oldest.bytes + bytes < limit => {
                oldest.first = first.min(oldest.first);
                oldest.bytes += bytes;
            }
            _ if bytes > 0 => self.parts.push_front(Part { first, bytes }),
            _ => {}
        }
        let count = u64::try_from(sizes.len()).unwrap_or(u64::MAX).max(1);
        let average = (bytes / count).max(1);
        // The sizes of neighbours may differ, so the window grows slowly.
        let grown = (WINDOW_BYTES / average).min(2 * self.window);
        self.window = grown.clamp(WINDOW_MIN, WINDOW_MAX);
    }

    /// Makes the next window small, after one that could not be read.
    pub(super) const fn shrink_window(&mut self) {
        self.window = WINDOW_MIN;
    }

    /// Returns the first number that stays, if entries below it are too many.
    pub(super) fn cut(&mut self) -> Option<u64> {
        let mut all = self.bytes();
        // What is measured is enough: nothing below it stays.
        let is_enough = all > self.keep && self.unmeasured.take().is_some();
        let oldest = self.parts.front().map(|oldest| oldest.first);
        let mut below = oldest.filter(|_| is_enough);
        while let Some(oldest) = self.parts.front()
            && all - oldest.bytes > self.keep
        {
            all -= oldest.bytes;
            self.parts.pop_front();
            below = self.parts.front().map(|next| next.first);
        }
        below
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const MIB: u64 = 1024 * 1024;

    /// The log of etcd: sizes by number.
    #[derive(Default)]
    struct Log(BTreeMap<u64, u64>);

    impl Log {
        fn last(&self) -> u64 {
            self.0.last_key_value().map_or(0, |(number, _)| *number)
        }

        fn bytes(&self) -> u64 {
            self.0.values().sum()
        }

        fn measure(&self, retention: &mut Retention) -> usize {
            let mut windows = 0;
            while let Some(window) = retention.window() {
                let sizes: Vec<_> = self
                    .0
                    .range(window.clone())
                    .map(|(n, b)| (*n, *b))
                    .collect();
                retention.measured(&window, &sizes);
                windows += 1;
            }
            windows
        }

        fn cut(&mut self, retention: &mut Retention) {
            if let Some(below) = retention.cut() {
                self.0.retain(|number, _| *number >= below);
            }
        }
    }

    #[test]
    fn a_log_stays_below_its_bound_however_often_its_owner_restarts() {
        let (keep, entry) = (MIB, 2_000);
        let mut log = Log::default();
        for _ in 0..100 {
            let mut retention = Retention::new(keep, log.last());
            log.measure(&mut retention);
            let mut applied = 0;
            // 0.6 MB in the life of each process: less than the bound.
            for _ in 0..300 {
                let number = log.last() + 1;
                log.0.insert(number, entry);
                applied += entry;
                retention.count(number, applied);
                log.cut(&mut retention);
            }
            assert!(log.bytes() <= keep + keep / 2, "{}", log.bytes());
        }
        // What the bound promises stays.
        assert!(log.bytes() >= keep, "{}", log.bytes());
    }

    #[test]
    fn a_log_that_was_never_cut_is_measured_only_as_far_as_it_stays() {
        let mut log = Log::default();
        for number in 1..=100_000 {
            log.0.insert(number, 1_000);
        }
        let mut retention = Retention::new(4 * MIB, log.last());
        let windows = log.measure(&mut retention);
        assert!(windows < 20, "{windows}");
        log.cut(&mut retention);
        assert!((4 * MIB..7 * MIB).contains(&log.bytes()), "{}", log.bytes());
        // Nothing is left to measure.
        assert_eq!(retention.window(), None);
    }

    #[test]
    fn a_log_that_begins_within_a_window_is_measured_to_its_beginning() {
        let mut log = Log::default();
        for number in 1_000..1_050 {
            log.0.insert(number, 100);
        }
        let mut retention = Retention::new(MIB, log.last());
        log.measure(&mut retention);
        assert_eq!((retention.bytes(), retention.window()), (5_000, None));
        assert_eq!(retention.cut(), None);
        // An empty log has nothing to measure.
        let mut retention = Retention::new(MIB, 7);
        assert_eq!(Log::default().measure(&mut retention), 1);
        assert_eq!(Retention::new(MIB, 0).window(), None);
    }
}
