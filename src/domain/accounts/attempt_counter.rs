//! One counter of attempts: a sliding window with escalating locks.
//!
//! A pure value; `throttle` reads and writes it.

use serde::{Deserialize, Serialize};

use playgate_store::Record;
use playgate_types::UnixSeconds;
use playgate_types::time::HOUR;

/// Seconds after a lock during which a further lock is longer.
const ESCALATION_WINDOW: i64 = HOUR;
/// Approximate maximum of distinct instants in a counter, which keeps its record below 4 KiB.
const INSTANTS_MAX: i64 = 256;
/// Seconds by which the clock reading of an attempt may be older than the newest attempt. A request reads the clock when
/// its head arrives, and may be counted only after a slow body.
const STALE_MAX: i64 = 300;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptRule {
    /// Attempts within the window; 0 disables the limit.
    pub limit: u32,
    /// In seconds.
    pub window: i64,
    /// Lengths of the first lock, the second and so on, in seconds. Without locks the window slides.
    pub locks: &'static [i64],
}

impl AttemptRule {
    fn grain(&self) -> i64 {
        if i64::from(self.limit) <= INSTANTS_MAX {
            1
        } else {
            // Large limits are counted in steps, so that the size of a counter does not grow with its limit.
            (self.window / INSTANTS_MAX).max(1)
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AttemptCounter {
    marks: Vec<(UnixSeconds, u32)>,
    level: u8,
    locked_until: UnixSeconds,
}

impl Record for AttemptCounter {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CountedAttempt {
    at: UnixSeconds,
    locked_until: Option<UnixSeconds>,
}

impl AttemptCounter {
    /// Counts an attempt. The error is the seconds until the next one is allowed.
    pub(super) fn reserve(
        &mut self,
        rule: &AttemptRule,
        now: UnixSeconds,
    ) -> Result<CountedAttempt, i64> {
        let now = self.not_before_newest(rule, now);
        self.tidy(rule, now);
        if let Some(seconds) = self.refusal(rule, now) {
            return Err(seconds);
        }
        let grain = rule.grain();
        // Rounded up: an attempt never expires early.
        let at = UnixSeconds((now.0 + grain - 1).div_euclid(grain) * grain);
        match self.marks.last_mut() {
            Some((last, count)) if *last == at => *count += 1,
            _ => self.marks.push((at, 1)),
        }
        let mut locked_until = None;
        // The attempt that reaches the limit starts the lock at once, so that no further one slips through
        // before it is known to be wrong. After a lock, while the limit is still reached, one attempt at a
        // time is allowed, and each starts the next, longer lock.
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

    /// Takes an attempt back, and lifts the lock that it caused or helped to cause.
    pub(super) fn refund(&mut self, rule: &AttemptRule, mark: CountedAttempt, now: UnixSeconds) {
        let now = self.not_before_newest(rule, now);
        if let Some((_, count)) = self.marks.iter_mut().find(|(at, _)| *at == mark.at) {
            *count = count.saturating_sub(1);
        }
        self.tidy(rule, now);
        let caused_lock = mark.locked_until == Some(self.locked_until);
        let below_limit = self.count() < rule.limit;
        if now < self.locked_until && (caused_lock || below_limit) {
            self.locked_until = now;
            // A right guess must not lengthen the next lock.
            self.level = self.level.saturating_sub(1);
        }
    }

    /// Adds an attempt that another counter has admitted, and refuses none.
    pub(super) fn add(&mut self, rule: &AttemptRule, mark: CountedAttempt, now: UnixSeconds) {
        let now = self.not_before_newest(rule, now).max(mark.at);
        self.tidy(rule, now);
        match self.marks.iter_mut().find(|(at, _)| *at == mark.at) {
            Some((_, count)) => *count += 1,
            None => self.marks.push((mark.at, 1)),
        }
    }

    /// Removes an attempt, and returns it if it was there. The attempts of a share are those of the count that it belongs to.
    pub(super) fn take(&mut self, mark: CountedAttempt) -> Vec<CountedAttempt> {
        let Some((_, count)) = self.marks.iter_mut().find(|(at, _)| *at == mark.at) else {
            return Vec::new();
        };
        *count = count.saturating_sub(1);
        self.marks.retain(|(_, count)| *count > 0);
        vec![mark]
    }

    /// Removes and returns all attempts. `mark` is the newest one.
    pub(super) fn take_all(&mut self, mark: CountedAttempt) -> Vec<CountedAttempt> {
        let mut taken = self.take(mark);
        for (at, count) in std::mem::take(&mut self.marks) {
            let locked_until = None;
            let earlier = CountedAttempt { at, locked_until };
            taken.extend((0..count).map(|_| earlier));
        }
        *self = Self::default();
        taken
    }

    /// Returns the seconds until an attempt is allowed, or `None` if it is allowed now. `self` must be tidy.
    fn refusal(&self, rule: &AttemptRule, now: UnixSeconds) -> Option<i64> {
        if rule.limit == 0 {
            return None;
        }
        if now < self.locked_until {
            return Some(self.locked_until.since(now));
        }
        // Below the limit the attempt is allowed.
        let mut over = self.count().checked_sub(rule.limit)?;
        // With locks, one attempt is allowed after each lock.
        if !rule.locks.is_empty() {
            return None;
        }
        // The window slides: the wait ends when enough of the oldest marks have expired.
        for (at, count) in &self.marks {
            match over.checked_sub(*count) {
                Some(rest) => over = rest,
                None => return Some((*at + rule.window).since(now).max(1)),
            }
        }
        None
    }

    /// Like [`Self::refusal`], for a counter that need not be tidy.
    pub(super) fn refusal_at(&self, rule: &AttemptRule, now: UnixSeconds) -> Option<i64> {
        let now = self.not_before_newest(rule, now);
        let mut tidy = self.clone();
        tidy.tidy(rule, now);
        tidy.refusal(rule, now)
    }

    /// Returns the number of failures before the lock.
    pub(super) fn left(&self, rule: &AttemptRule) -> u32 {
        rule.limit.saturating_sub(self.count())
    }

    pub(super) fn is_idle(&self, rule: &AttemptRule, now: UnixSeconds) -> bool {
        let now = self.not_before_newest(rule, now);
        let mut tidy = self.clone();
        tidy.tidy(rule, now);
        tidy.marks.is_empty() && tidy.level == 0 && tidy.locked_until <= now
    }

    fn count(&self) -> u32 {
        self.marks
            .iter()
            .fold(0, |sum: u32, (_, count)| sum.saturating_add(*count))
    }

    /// Returns `now`, or the time of the newest attempt if that is slightly later. Otherwise an attacker could erase
    /// marks and locks: open a request, guess with others, and then send its body.
    fn not_before_newest(&self, rule: &AttemptRule, now: UnixSeconds) -> UnixSeconds {
        // Marks are rounded up: an attempt may be that much older than its mark.
        let rounding = rule.grain() - 1;
        self.marks
            .iter()
            .map(|(at, _)| *at - rounding)
            .filter(|at| at.since(now) <= STALE_MAX)
            .fold(now, UnixSeconds::max)
    }

    /// Drops expired marks and ends the escalation of old locks.
    fn tidy(&mut self, rule: &AttemptRule, now: UnixSeconds) {
        // Marks and locks too far in the future were left by a clock that ran ahead; they would lock the
        // account for as long.
        let latest = now + rule.grain();
        self.marks
            .retain(|(at, count)| *count > 0 && *at <= latest && now < *at + rule.window);
        let longest = rule.locks.last().copied().unwrap_or(0);
        // A quiet hour after a lock starts the escalation over.
        if self.locked_until > now + longest + STALE_MAX
            || now >= self.locked_until + ESCALATION_WINDOW
        {
            self.level = 0;
            self.locked_until = UnixSeconds::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RULE: AttemptRule = AttemptRule {
        limit: 3,
        window: 900,
        locks: &[60, 120, 900],
    };
    const SLIDING: AttemptRule = AttemptRule { locks: &[], ..RULE };
    const NOW: UnixSeconds = UnixSeconds(1_767_225_600);

    fn fail(counter: &mut AttemptCounter, times: u32, now: UnixSeconds) {
        for _ in 0..times {
            counter.reserve(&RULE, now).unwrap();
        }
    }

    #[test]
    fn locks_escalate_up_to_the_longest() {
        let mut counter = AttemptCounter::default();
        fail(&mut counter, 3, NOW);
        let mut now = NOW;
        for lock in [60, 120, 900] {
            assert_eq!(counter.reserve(&RULE, now), Err(lock));
            assert_eq!(counter.reserve(&RULE, now + (lock - 1)), Err(1));
            now = now + lock;
            // After the longest lock the window has passed.
            let allowed = if lock == 900 { 3 } else { 1 };
            fail(&mut counter, allowed, now);
        }
        assert_eq!(counter.reserve(&RULE, now), Err(900));
    }

    #[test]
    fn refunded_attempts_neither_count_nor_lock() {
        let mut counter = AttemptCounter::default();
        for _ in 0..100 {
            let mark = counter.reserve(&RULE, NOW).unwrap();
            counter.refund(&RULE, mark, NOW);
        }
        assert!(counter.is_idle(&RULE, NOW));
        fail(&mut counter, 2, NOW);
        let third = counter.reserve(&RULE, NOW).unwrap();
        assert_eq!(counter.reserve(&RULE, NOW), Err(60));
        counter.refund(&RULE, third, NOW + 1);
        // Two failures remain: the third locks.
        fail(&mut counter, 1, NOW + 1);
        assert_eq!(counter.reserve(&RULE, NOW + 1), Err(60));
    }

    #[test]
    fn refund_lifts_the_lock_that_it_helped_to_cause() {
        let mut counter = AttemptCounter::default();
        let first = counter.reserve(&RULE, NOW).unwrap();
        fail(&mut counter, 2, NOW);
        counter.refund(&RULE, first, NOW);
        fail(&mut counter, 1, NOW);
        assert_eq!(counter.reserve(&RULE, NOW), Err(60));
    }

    #[test]
    fn success_after_a_lock_does_not_skip_the_next_lock() {
        let mut counter = AttemptCounter::default();
        fail(&mut counter, 3, NOW);
        let probe = counter.reserve(&RULE, NOW + 60).unwrap();
        counter.refund(&RULE, probe, NOW + 60);
        fail(&mut counter, 1, NOW + 61);
        assert_eq!(counter.reserve(&RULE, NOW + 61), Err(120));
    }

    #[test]
    fn idle_counter_resets() {
        let mut counter = AttemptCounter::default();
        fail(&mut counter, 3, NOW);
        assert!(!counter.is_idle(&RULE, NOW + 3_659));
        assert!(counter.is_idle(&RULE, NOW + 3_660));
        fail(&mut counter, 3, NOW + 3_660);
        assert_eq!(counter.reserve(&RULE, NOW + 3_660), Err(60));
    }

    #[test]
    fn without_locks_the_window_slides() {
        let mut counter = AttemptCounter::default();
        for second in [0, 10, 20] {
            counter.reserve(&SLIDING, NOW + second).unwrap();
        }
        assert_eq!(counter.reserve(&SLIDING, NOW + 20), Err(880));
        assert_eq!(counter.reserve(&SLIDING, NOW + 899), Err(1));
        counter.reserve(&SLIDING, NOW + 900).unwrap();
        assert_eq!(counter.reserve(&SLIDING, NOW + 900), Err(10));
    }

    #[test]
    fn limit_of_zero_disables_the_limit() {
        let none = AttemptRule {
            limit: 0,
            ..SLIDING
        };
        let mut counter = AttemptCounter::default();
        for _ in 0..1_000 {
            counter.reserve(&none, NOW).unwrap();
        }
    }

    #[test]
    fn clock_that_was_ahead_locks_no_account() {
        let mut counter = AttemptCounter::default();
        fail(&mut counter, 3, NOW + 365 * 86_400);
        fail(&mut counter, 3, NOW);
        assert_eq!(counter.reserve(&RULE, NOW), Err(60));
    }

    #[test]
    fn attempt_with_an_old_clock_reading_keeps_newer_marks_and_locks() {
        let opened = NOW;
        let mut counter = AttemptCounter::default();
        fail(&mut counter, 2, NOW + 30);
        fail(&mut counter, 1, opened);
        assert_eq!(counter.count(), 3);
        assert_eq!(counter.reserve(&RULE, opened), Err(60));
        assert_eq!(counter.refusal_at(&RULE, opened), Some(60));
        assert_eq!(counter.reserve(&RULE, NOW + 30), Err(60));
        assert!(!counter.is_idle(&RULE, opened));
    }

    #[test]
    fn refund_with_an_old_clock_reading_keeps_newer_marks() {
        let mut counter = AttemptCounter::default();
        let slow = counter.reserve(&RULE, NOW).unwrap();
        fail(&mut counter, 2, NOW + 30);
        counter.refund(&RULE, slow, NOW);
        assert_eq!(counter.count(), 2);
        fail(&mut counter, 1, NOW + 30);
        assert_eq!(counter.reserve(&RULE, NOW + 30), Err(60));
    }

    #[test]
    fn attempt_with_an_old_clock_reading_keeps_a_lock_without_newer_marks() {
        let rule = AttemptRule {
            locks: &[60],
            ..RULE
        };
        let mut counter = AttemptCounter {
            locked_until: NOW + 90,
            ..AttemptCounter::default()
        };
        assert_eq!(counter.reserve(&rule, NOW), Err(90));
    }

    /// The figure of `docs/decisions/guessing.md`.
    #[test]
    fn one_count_admits_fewer_than_a_thousand_guesses_a_day() {
        let rule = super::super::AttemptLimits::default().login_account;
        // Guesses whenever one is allowed, after pauses of different lengths that let the locks become short again.
        for pause in [0, 600, 3_600, 7_200] {
            let (mut counter, mut guesses, mut last) = (AttemptCounter::default(), 0, NOW);
            for second in 0..86_400 {
                let now = NOW + second;
                let paused = guesses % 10 == 0 && now.0 < last.0 + pause;
                if !paused && counter.reserve(&rule, now).is_ok() {
                    (guesses, last) = (guesses + 1, now);
                }
            }
            assert!((100..1_000).contains(&guesses), "{pause}: {guesses}");
        }
    }

    #[test]
    fn counters_of_large_limits_stay_small() {
        let large = AttemptRule {
            limit: 100_000,
            window: 3_600,
            locks: &[],
        };
        let mut counter = AttemptCounter::default();
        for second in 0..3_600 {
            counter.reserve(&large, NOW + second).unwrap();
        }
        assert!(counter.marks.len() <= 300);
        assert_eq!(counter.count(), 3_600);
    }

    proptest! {
        /// No window contains more failures than the limit plus one per lock that ended in it.
        #[test]
        fn attempts_never_exceed_the_limit(
            steps in prop::collection::vec((0_i64..200, any::<bool>(), 0_i64..60), 1..200)
        ) {
            let mut counter = AttemptCounter::default();
            let mut failed: Vec<i64> = Vec::new();
            let mut now = NOW;
            for (pause, right, age) in steps {
                now = now + pause;
                // The request was opened earlier.
                let read = now - age;
                if let Ok(mark) = counter.reserve(&RULE, read) {
                    if right {
                        counter.refund(&RULE, mark, read);
                    } else {
                        failed.push(now.0);
                    }
                }
                // An attempt expires earlier by the age of its reading.
                let within = failed.iter().filter(|at| now.0 < *at + 900 - 60).count();
                prop_assert!(within <= 3 + 2, "{within}");
            }
        }
    }
}
