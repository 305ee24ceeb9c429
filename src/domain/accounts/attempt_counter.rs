//! One counter of attempts: how many count, whether it is locked, and for how long next time.
//!
//! A pure value: the plan that reads and writes it is `throttle`'s.

use serde::{Deserialize, Serialize};

use crate::store::Record;
use crate::types::UnixSeconds;
use crate::types::time::HOUR;

/// For how many seconds after a lock the next one is the longer for it.
const LEVEL_KEPT: i64 = HOUR;
/// How many distinct instants a counter keeps at the most, about: its record stays under 4 KiB.
const INSTANTS: i64 = 256;

/// How often something may fail, or be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// How many times within the window; 0 is without a limit.
    pub limit: u32,
    /// Seconds that one counts.
    pub window: i64,
    /// For how many seconds the limit locks, the first time, the second, …; if empty, until
    /// enough of what was counted is older than the window.
    pub locks: &'static [i64],
}

impl Rule {
    /// The seconds that count as one instant. Small limits are counted exactly; large ones in
    /// steps, rounded up, so that a counter's size does not follow its limit.
    fn grain(&self) -> i64 {
        if i64::from(self.limit) <= INSTANTS {
            1
        } else {
            (self.window / INSTANTS).max(1)
        }
    }
}

/// A counter as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Counter {
    /// What counts, by instant, oldest first.
    marks: Vec<(UnixSeconds, u32)>,
    /// How many locks there were in a row.
    level: u8,
    /// Until when it is locked, or when its last lock ended.
    locked_until: UnixSeconds,
}

impl Record for Counter {}

/// An attempt that was counted, so that it can be given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CountedAttempt {
    at: UnixSeconds,
    /// The end of the lock that it began.
    locked_until: Option<UnixSeconds>,
}

impl Counter {
    /// Counts an attempt, or tells in how many seconds one is allowed.
    ///
    /// The attempt that reaches the limit begins the lock by itself, so that no second one can slip
    /// by before it is known to be wrong. After the lock one attempt at a time is allowed while the
    /// limit is still reached, and each begins the next, longer lock.
    pub(super) fn reserve(&mut self, rule: &Rule, now: UnixSeconds) -> Result<CountedAttempt, i64> {
        self.tidy(rule, now);
        if let Some(seconds) = self.refusal(rule, now) {
            return Err(seconds);
        }
        let grain = rule.grain();
        let at = UnixSeconds((now.0 + grain - 1).div_euclid(grain) * grain);
        match self.marks.last_mut() {
            Some((last, count)) if *last == at => *count += 1,
            _ => self.marks.push((at, 1)),
        }
        let mut locked_until = None;
        if self.count() >= rule.limit
            && let Some(longest) = rule.locks.last()
        {
            let lock = rule.locks.get(usize::from(self.level)).unwrap_or(longest);
            self.locked_until = now + *lock;
            self.level = self.level.saturating_add(1);
            locked_until = Some(self.locked_until);
        }
        Ok(CountedAttempt { at, locked_until })
    }

    /// Gives an attempt back, with the lock that it began or that would not be without it.
    pub(super) fn refund(&mut self, rule: &Rule, mark: CountedAttempt, now: UnixSeconds) {
        if let Some((_, count)) = self.marks.iter_mut().find(|(at, _)| *at == mark.at) {
            *count = count.saturating_sub(1);
        }
        self.tidy(rule, now);
        let began = mark.locked_until == Some(self.locked_until);
        let unfounded = self.count() < rule.limit;
        if now < self.locked_until && (began || unfounded) {
            self.locked_until = now;
            self.level = self.level.saturating_sub(1);
        }
    }

    /// In how many seconds an attempt is allowed, if not now. For a tidy counter.
    fn refusal(&self, rule: &Rule, now: UnixSeconds) -> Option<i64> {
        if rule.limit == 0 {
            return None;
        }
        if now < self.locked_until {
            return Some(self.locked_until.since(now));
        }
        let mut over = self.count().checked_sub(rule.limit)?;
        if !rule.locks.is_empty() {
            return None;
        }
        for (at, count) in &self.marks {
            match over.checked_sub(*count) {
                Some(rest) => over = rest,
                None => return Some((*at + rule.window).since(now).max(1)),
            }
        }
        None
    }

    /// In how many seconds an attempt is allowed, if not now.
    pub(super) fn refuses(&self, rule: &Rule, now: UnixSeconds) -> Option<i64> {
        let mut tidy = self.clone();
        tidy.tidy(rule, now);
        tidy.refusal(rule, now)
    }

    /// How many more attempts may fail before the limit locks.
    pub(super) fn left(&self, rule: &Rule) -> u32 {
        rule.limit.saturating_sub(self.count())
    }

    /// Whether it says no more than a counter that is not there.
    pub(super) fn is_idle(&self, rule: &Rule, now: UnixSeconds) -> bool {
        let mut tidy = self.clone();
        tidy.tidy(rule, now);
        tidy.marks.is_empty() && tidy.level == 0 && tidy.locked_until <= now
    }

    fn count(&self) -> u32 {
        self.marks
            .iter()
            .fold(0, |sum: u32, (_, count)| sum.saturating_add(*count))
    }

    /// Drops what no longer counts, and what a clock that was ahead has left: a lock or a mark that
    /// lies further in the future than any could would otherwise last for as long.
    fn tidy(&mut self, rule: &Rule, now: UnixSeconds) {
        let latest = now + rule.grain();
        self.marks
            .retain(|(at, count)| *count > 0 && *at <= latest && now < *at + rule.window);
        let longest = rule.locks.last().copied().unwrap_or(0);
        if self.locked_until > now + longest || now >= self.locked_until + LEVEL_KEPT {
            self.level = 0;
            self.locked_until = UnixSeconds::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RULE: Rule = Rule {
        limit: 3,
        window: 900,
        locks: &[60, 120, 900],
    };
    const SLIDING: Rule = Rule { locks: &[], ..RULE };
    const NOW: UnixSeconds = UnixSeconds(1_767_225_600);

    fn fail(counter: &mut Counter, times: u32, now: UnixSeconds) {
        for _ in 0..times {
            counter.reserve(&RULE, now).unwrap();
        }
    }

    #[test]
    fn each_lock_is_longer_and_none_longer_than_the_last() {
        let mut counter = Counter::default();
        fail(&mut counter, 3, NOW);
        let mut now = NOW;
        for lock in [60, 120, 900] {
            assert_eq!(counter.reserve(&RULE, now), Err(lock));
            assert_eq!(counter.reserve(&RULE, now + (lock - 1)), Err(1));
            now = now + lock;
            // The window is over after the longest.
            let allowed = if lock == 900 { 3 } else { 1 };
            fail(&mut counter, allowed, now);
        }
        assert_eq!(counter.reserve(&RULE, now), Err(900));
    }

    #[test]
    fn success_counts_nothing_and_locks_nothing() {
        let mut counter = Counter::default();
        for _ in 0..100 {
            let mark = counter.reserve(&RULE, NOW).unwrap();
            counter.refund(&RULE, mark, NOW);
        }
        assert!(counter.is_idle(&RULE, NOW));
        fail(&mut counter, 2, NOW);
        let third = counter.reserve(&RULE, NOW).unwrap();
        assert_eq!(counter.reserve(&RULE, NOW), Err(60));
        counter.refund(&RULE, third, NOW + 1);
        // Two failures stand: the third locks.
        fail(&mut counter, 1, NOW + 1);
        assert_eq!(counter.reserve(&RULE, NOW + 1), Err(60));
    }

    #[test]
    fn an_earlier_success_lifts_the_lock_that_it_helped_to_reach() {
        let mut counter = Counter::default();
        let first = counter.reserve(&RULE, NOW).unwrap();
        fail(&mut counter, 2, NOW);
        counter.refund(&RULE, first, NOW);
        fail(&mut counter, 1, NOW);
        assert_eq!(counter.reserve(&RULE, NOW), Err(60));
    }

    #[test]
    fn a_success_after_a_lock_leaves_the_next_guess_alone_at_the_next_lock() {
        let mut counter = Counter::default();
        fail(&mut counter, 3, NOW);
        let probe = counter.reserve(&RULE, NOW + 60).unwrap();
        counter.refund(&RULE, probe, NOW + 60);
        fail(&mut counter, 1, NOW + 61);
        assert_eq!(counter.reserve(&RULE, NOW + 61), Err(120));
    }

    #[test]
    fn quiet_is_forgiven() {
        let mut counter = Counter::default();
        fail(&mut counter, 3, NOW);
        assert!(!counter.is_idle(&RULE, NOW + 3_659));
        assert!(counter.is_idle(&RULE, NOW + 3_660));
        fail(&mut counter, 3, NOW + 3_660);
        assert_eq!(counter.reserve(&RULE, NOW + 3_660), Err(60));
    }

    #[test]
    fn without_locks_the_window_slides() {
        let mut counter = Counter::default();
        for second in [0, 10, 20] {
            counter.reserve(&SLIDING, NOW + second).unwrap();
        }
        assert_eq!(counter.reserve(&SLIDING, NOW + 20), Err(880));
        assert_eq!(counter.reserve(&SLIDING, NOW + 899), Err(1));
        counter.reserve(&SLIDING, NOW + 900).unwrap();
        assert_eq!(counter.reserve(&SLIDING, NOW + 900), Err(10));
    }

    #[test]
    fn a_limit_of_nothing_is_no_limit() {
        let none = Rule {
            limit: 0,
            ..SLIDING
        };
        let mut counter = Counter::default();
        for _ in 0..1_000 {
            counter.reserve(&none, NOW).unwrap();
        }
    }

    #[test]
    fn a_clock_that_was_ahead_locks_nobody_out() {
        let mut counter = Counter::default();
        fail(&mut counter, 3, NOW + 365 * 86_400);
        fail(&mut counter, 3, NOW);
        assert_eq!(counter.reserve(&RULE, NOW), Err(60));
    }

    #[test]
    fn large_limits_are_kept_small() {
        let large = Rule {
            limit: 100_000,
            window: 3_600,
            locks: &[],
        };
        let mut counter = Counter::default();
        for second in 0..3_600 {
            counter.reserve(&large, NOW + second).unwrap();
        }
        assert!(counter.marks.len() <= 300);
        assert_eq!(counter.count(), 3_600);
    }

    proptest! {
        /// In no window do more fail than the limit and one for each lock that has passed in it.
        #[test]
        fn never_more_than_allowed(steps in prop::collection::vec((0_i64..200, any::<bool>()), 1..200)) {
            let mut counter = Counter::default();
            let mut failed: Vec<i64> = Vec::new();
            let mut now = NOW;
            for (pause, right) in steps {
                now = now + pause;
                if let Ok(mark) = counter.reserve(&RULE, now) {
                    if right {
                        counter.refund(&RULE, mark, now);
                    } else {
                        failed.push(now.0);
                    }
                }
                let within = failed.iter().filter(|at| now.0 < *at + 900).count();
                prop_assert!(within <= 3 + 2, "{within}");
            }
        }
    }
}
