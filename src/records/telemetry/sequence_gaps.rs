//! Estimates how many events were lost in transit from gaps in the players' sequence numbers.

use std::collections::HashMap;

use foldhash::fast::RandomState;

/// Maximum number of devices. Beyond it, all are forgotten and counting starts again.
const DEVICES_MAX: usize = 200_000;
/// A larger jump is a restart of the player, not a gap.
const GAP_MAX: u64 = 1_000;

#[derive(Default)]
pub(super) struct Gaps {
    /// Last sequence number by hash of user and device.
    last: HashMap<u64, i64, RandomState>,
    lost: u64,
}

impl Gaps {
    /// A jump forward counts the numbers that it skips; a late event takes one of them back.
    pub(super) fn record(&mut self, device: u64, sequence: i64) {
        // Forgetting all costs at most one uncounted gap for each device, and needs no bookkeeping by age.
        if self.last.len() >= DEVICES_MAX && !self.last.contains_key(&device) {
            self.last.clear();
        }
        let last = self.last.entry(device).or_insert(sequence);
        let step = sequence.saturating_sub(*last);
        let near = step.unsigned_abs() <= GAP_MAX;
        if near && step < 0 {
            self.lost = self.lost.saturating_sub(1);
            return;
        }
        if near && step > 1 {
            self.lost += step.unsigned_abs() - 1;
        }
        *last = sequence;
    }

    pub(super) const fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(sequences: &[i64]) -> u64 {
        let mut gaps = Gaps::default();
        for sequence in sequences {
            gaps.record(1, *sequence);
            // Sequence numbers are per device.
            gaps.record(2, 7);
        }
        gaps.lost()
    }

    #[test]
    fn gaps_are_counted_and_late_events_taken_back() {
        assert_eq!(lost(&[5, 6, 7]), 0);
        assert_eq!(lost(&[5, 8]), 2);
        assert_eq!(lost(&[5, 8, 6, 7, 9]), 0);
        assert_eq!(lost(&[5, 8, 6]), 1);
        // The player was restarted.
        assert_eq!(lost(&[50_000, 1, 2]), 0);
        assert_eq!(lost(&[1, 50_000]), 0);
        assert_eq!(lost(&[i64::MIN, i64::MAX]), 0);
    }
}
