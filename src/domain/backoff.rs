//! Exponential backoff with jitter.

/// A delay that doubles with each failure, up to a maximum. In seconds.
#[derive(Clone, Copy)]
pub struct Backoff {
    pub first: i64,
    pub longest: i64,
}

impl Backoff {
    /// Returns the delay after `failures` earlier failures, without jitter.
    pub(crate) fn delay(self, failures: u32) -> i64 {
        // The bound keeps the shift from overflowing.
        let factor = 1_i64 << failures.min(20);
        self.first.saturating_mul(factor).min(self.longest)
    }

    /// Returns the delay after `failures` earlier failures, ±25 %.
    pub fn after(self, failures: u32, random: u64) -> i64 {
        let delay = self.delay(failures);
        // Tasks that failed together must not retry together.
        let spread = random % u64::try_from(delay / 2 + 1).unwrap_or(1);
        delay - delay / 4 + i64::try_from(spread).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_maximum_with_jitter() {
        let slow = Backoff {
            first: 30,
            longest: 1_800,
        };
        let waits: Vec<i64> = (0..9).map(|failures| slow.after(failures, 0)).collect();
        assert_eq!(waits, [23, 45, 90, 180, 360, 720, 1_350, 1_350, 1_350]);
        let quick = Backoff {
            first: 5,
            longest: 300,
        };
        assert_eq!(quick.after(u32::MAX, 0), 225);
        for random in 0..2_000 {
            let wait = quick.after(6, random);
            assert!((225..=375).contains(&wait), "{wait}");
        }
        assert_eq!(quick.after(0, 2), 6);
    }
}
