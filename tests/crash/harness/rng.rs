//! Repeatable random numbers, the number of rounds, and how a test is skipped.

use std::time::UNIX_EPOCH;

/// A generator whose seed is printed (splitmix64).
#[derive(Clone)]
pub struct Rng(u64);

impl Rng {
    /// The dice of a test: from `PLAYGATE_CRASH_SEED`, or from the time.
    pub fn of_test(name: &str) -> Self {
        let seed = number("PLAYGATE_CRASH_SEED")
            .unwrap_or_else(|| UNIX_EPOCH.elapsed().unwrap().as_secs());
        println!("{name}: PLAYGATE_CRASH_SEED={seed}");
        let salt = name.bytes().fold(seed, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(byte.into())
        });
        Self(salt)
    }

    /// Dice that decide nothing.
    pub const fn of_nothing() -> Self {
        Self(0)
    }

    /// Dice of its own for each round and each thread, so that what one does changes nothing of
    /// what another meets.
    pub fn split(&self, nth: u64) -> Self {
        let mut dice = Self(self.0 ^ nth.wrapping_mul(0xA24B_AED4_963E_E407));
        Self(dice.next())
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below another one, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// True once in so many times.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// The place of an item.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length.max(1) as u64)).unwrap()
    }
}

/// How many rounds a test runs: so many for every change, or the share of the long form that
/// `PLAYGATE_CRASH_ROUNDS` asks for, in thousandths.
pub fn rounds(short: u64, long: u64) -> u64 {
    match number("PLAYGATE_CRASH_ROUNDS") {
        Some(thousandths) => (long * thousandths).div_ceil(1_000),
        None => short,
    }
}

pub fn number(variable: &str) -> Option<u64> {
    let text = std::env::var_os(variable)?;
    let number = text.to_str().and_then(|text| text.parse().ok());
    Some(number.unwrap_or_else(|| panic!("{variable} is not a number: {text:?}")))
}

/// Says that a test cannot be run here; where every test has to be, that is a failure.
pub fn skip(test: &str, why: &str) {
    let everything = std::env::var_os("CI").is_some_and(|value| value == "true");
    assert!(!everything, "{test} cannot be run here: {why}");
    println!("{test} skipped: {why}");
}
