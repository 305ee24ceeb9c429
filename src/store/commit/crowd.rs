//! How long a group of commits of a fleet waits for more.

use std::time::Duration;

/// Maximum time that a group waits for more commits.
const PATIENCE_MAX: Duration = Duration::from_millis(20);
/// Part of the time of an append that a group waits, as a divisor.
const PATIENCE_DIVISOR: u32 = 4;

/// How many clients commit at the same time in a fleet, and how long an append takes.
///
/// A client sends its next commit soon after the answer to the last one. A group that does not wait has only the commits that
/// came during the previous append, and the clients that are answered just before wait for two appends: half of the clients
/// are in every second group. So a group waits a little for those that were just answered. A commit that comes alone waits for
/// nobody.
#[derive(Default)]
pub(crate) struct Crowd {
    expected: usize,
    append: Duration,
}

impl Crowd {
    /// Returns how long a group with so many commits waits for more, counted from its first one.
    pub(super) fn patience(&self, commits: usize) -> Duration {
        match commits < self.expected {
            true => (self.append / PATIENCE_DIVISOR).min(PATIENCE_MAX),
            false => Duration::ZERO,
        }
    }

    /// Records that an append has taken some time, and that so many commits are answered now while others are waiting.
    pub(super) fn answers(&mut self, commits: usize, waiting: usize, took: Duration) {
        self.expected = commits + waiting;
        self.append = (self.append * 3 + took) / 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_waits_for_those_that_were_just_answered_and_a_single_commit_for_nobody() {
        let mut crowd = Crowd::default();
        assert_eq!(crowd.patience(1), Duration::ZERO);
        let append = Duration::from_millis(8);
        for _ in 0..100 {
            crowd.answers(1, 0, append);
        }
        assert_eq!(crowd.patience(1), Duration::ZERO);
        // Eight clients were answered while eight others waited: the next group has room for all.
        crowd.answers(8, 8, append);
        let patience = crowd.patience(8);
        assert!(patience > Duration::ZERO && patience <= append / PATIENCE_DIVISOR);
        assert_eq!(crowd.patience(15), patience);
        assert_eq!(crowd.patience(16), Duration::ZERO);
        crowd.answers(16, 0, Duration::from_secs(60));
        assert_eq!(crowd.patience(1), PATIENCE_MAX);
        // After the crowd is gone, one group has waited.
        crowd.answers(1, 0, append);
        assert_eq!(crowd.patience(1), Duration::ZERO);
    }
}
