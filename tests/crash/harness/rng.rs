//! Repeatable random numbers, the number of rounds, and how a test is skipped.

use std::time::UNIX_EPOCH;

/// splitmix64. Its seed is printed.
#[derive(Clone)]
pub struct Rng(u64);

impl Rng {
    /// The generator of a test, seeded by `PLAYGATE_CRASH_SEED` or by the time.
    pub fn for_test(name: &str) -> Self {
        let seed = number("PLAYGATE_CRASH_SEED")
            .unwrap_or_else(|| UNIX_EPOCH.elapsed().unwrap().as_secs());
        println!("{name}: PLAYGATE_CRASH_SEED={seed}");
        let salt = name.bytes().fold(seed, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(byte.into())
        });
        Self(salt)
    }

    /// A fixed seed, for data whose content does not matter.
    pub const fn fixed() -> Self {
        Self(0)
    }

    /// Returns an independent generator for a round or a thread, so that one does not change what another draws.
    pub fn split(&self, nth: u64) -> Self {
        let mut rng = Self(self.0 ^ nth.wrapping_mul(0xA24B_AED4_963E_E407));
        Self(rng.next())
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// `bound` must not be 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Returns true with the probability 1 / `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length.max(1) as u64)).unwrap()
    }
}

/// Returns the number of rounds of a test: `short` for every change, or the part of `long` that `PLAYGATE_CRASH_ROUNDS`
/// sets, in thousandths.
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

/// Reports that a test cannot run here. In CI, which has to run every test, that is a failure.
pub fn skip(test: &str, why: &str) {
    let everything = std::env::var_os("CI").is_some_and(|value| value == "true");
    assert!(!everything, "{test} cannot be run here: {why}");
    println!("{test} skipped: {why}");
}
