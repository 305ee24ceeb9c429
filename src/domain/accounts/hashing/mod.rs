//! argon2id over passwords and PINs, in memory that is used again and again; hashes that users bring
//! from elsewhere are verified too.
//!
//! A hash takes some 16 ms and 19 MiB: it runs in a bounded lane, never on a thread of the runtime
//! or of the store.

mod hash_format;

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use argon2::{Algorithm, Argon2, Block, Params, Version};
use data_encoding::BASE64_NOPAD;

use crate::ports::Entropy;
use crate::types::Malformed;
use hash_format::HashFormat;

const SALT: usize = 16;
const OUTPUT: usize = 32;
/// Bounds on the parameters of a configuration and of a stored hash: 1 GiB, and what takes seconds
/// at most. Those of an imported hash are closer.
const MEMORY_KIB_MAX: u32 = 1024 * 1024;
const ITERATIONS_MAX: u32 = 64;
const PARALLELISM_MAX: u32 = 64;

/// The cost of one hash, section `accounts` of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Memory in KiB.
    pub memory_kib: u32,
    /// Passes over it.
    pub iterations: u32,
    /// Lanes.
    pub parallelism: u32,
}

impl Default for Cost {
    fn default() -> Self {
        Self {
            memory_kib: 19 * 1024,
            iterations: 2,
            parallelism: 1,
        }
    }
}

impl Cost {
    /// Whether argon2 takes these parameters, and this service takes the time.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.memory_kib <= MEMORY_KIB_MAX
            && self.iterations <= ITERATIONS_MAX
            && self.parallelism <= PARALLELISM_MAX
            && self.params(OUTPUT).is_some()
    }

    /// The parameters of argon2 for an output of so many bytes.
    fn params(&self, output: usize) -> Option<Params> {
        Params::new(
            self.memory_kib,
            self.iterations,
            self.parallelism,
            Some(output),
        )
        .ok()
    }
}

/// How often a secret was hashed since the start.
#[derive(Debug, Default)]
pub struct HashCounts {
    argon2: AtomicU64,
    foreign: AtomicU64,
}

impl HashCounts {
    /// By argon2, ours or brought along.
    #[must_use]
    pub fn argon2(&self) -> u64 {
        self.argon2.load(Relaxed)
    }

    /// By another function, of passwords that were brought along.
    #[must_use]
    pub fn foreign(&self) -> u64 {
        self.foreign.load(Relaxed)
    }
}

/// The blocks that hashes of one thread are made in, kept from one to the next: fresh pages would
/// cost a quarter of the time again.
#[derive(Default)]
pub struct HashMemory {
    blocks: Vec<Block>,
    counts: Arc<HashCounts>,
}

impl HashMemory {
    /// Memory of a thread whose hashes are counted with those of others.
    #[must_use]
    pub const fn counted(counts: Arc<HashCounts>) -> Self {
        Self {
            blocks: Vec::new(),
            counts,
        }
    }

    /// Gives back what a dearer hash than today's has taken.
    fn trim(&mut self, today: Cost) {
        let kept = today
            .params(OUTPUT)
            .map_or(0, |params| params.block_count());
        if self.blocks.len() > kept {
            self.blocks.truncate(kept);
            self.blocks.shrink_to_fit();
        }
    }
}

/// A password hash of another service, checked: of a kind that is known, at a cost that this service
/// pays. It is replaced by ours at the first login.
pub struct ForeignHash(String);

impl ForeignHash {
    /// Takes argon2 (i, d, id), bcrypt (`$2a$`, `$2b$`, `$2y$`), scrypt and PBKDF2 in the PHC form,
    /// and PBKDF2 as Django writes it.
    ///
    /// # Errors
    /// [`Malformed`] for another form, or if one login with it would cost too much.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let stored = HashFormat::parse(text).ok_or(Malformed(
            "must be a hash of argon2, bcrypt, scrypt or PBKDF2 in its usual form",
        ))?;
        if stored.is_affordable() {
            Ok(Self(text.to_owned()))
        } else {
            Err(Malformed(
                "costs too much: at most 128 MiB, and about a second of one core",
            ))
        }
    }

    pub(super) fn into_stored(self) -> String {
        self.0
    }
}

/// Hashes `secret` with a fresh salt; the stored form.
pub(super) fn hash(
    secret: &str,
    cost: Cost,
    entropy: &dyn Entropy,
    memory: &mut HashMemory,
) -> Result<String, HashingFailed> {
    let salt: [u8; SALT] = entropy.array();
    let mut output = [0; OUTPUT];
    let ours = (Algorithm::Argon2id, Version::V0x13);
    compute(ours, secret, &salt, cost, &mut output, memory)?;
    Ok(write_out(cost, &salt, &output))
}

/// The stored form: `$argon2id$v=19$m=…,t=…,p=…$salt$hash`.
fn write_out(cost: Cost, salt: &[u8], output: &[u8]) -> String {
    let Cost {
        memory_kib: m,
        iterations: t,
        parallelism: p,
    } = cost;
    let mut text = String::with_capacity(100);
    // Writing to a string does not fail.
    let _ = write!(
        text,
        "$argon2id$v=19$m={m},t={t},p={p}${}${}",
        BASE64_NOPAD.encode(salt),
        BASE64_NOPAD.encode(output)
    );
    text
}

/// What a stored hash says of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Whether it is the hash of the secret.
    pub(super) matches: bool,
    /// Whether it was made at another cost than is asked for today.
    pub(super) outdated: bool,
}

/// Compares a secret with a stored hash.
pub(super) fn verify(
    secret: &str,
    stored: &str,
    today: Cost,
    memory: &mut HashMemory,
) -> Result<Verdict, HashingFailed> {
    let stored = HashFormat::parse(stored).ok_or(HashingFailed)?;
    let matches = stored.is_of(secret, memory)?;
    memory.trim(today);
    Ok(Verdict {
        matches,
        outdated: !stored.is_made_at(today),
    })
}

/// A stored form of today's cost that is the hash of nothing that anybody could know.
pub(super) fn dummy(cost: Cost) -> String {
    write_out(cost, &[0; SALT], &[0; OUTPUT])
}

/// The stored hash or the parameters are none that this service takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HashingFailed;

fn compute(
    (algorithm, version): (Algorithm, Version),
    secret: &str,
    salt: &[u8],
    cost: Cost,
    output: &mut [u8],
    memory: &mut HashMemory,
) -> Result<(), HashingFailed> {
    let params = cost.params(output.len()).ok_or(HashingFailed)?;
    let count = params.block_count();
    if memory.blocks.len() < count {
        memory.blocks.resize(count, Block::new());
    }
    let blocks = memory.blocks.get_mut(..count).ok_or(HashingFailed)?;
    memory.counts.argon2.fetch_add(1, Relaxed);
    Argon2::new(algorithm, version, params)
        .hash_password_into_with_memory(secret.as_bytes(), salt, output, blocks)
        .map_err(|_| HashingFailed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::entropy::SeededEntropy;

    const SMALL: Cost = Cost {
        memory_kib: 8,
        iterations: 1,
        parallelism: 1,
    };

    #[test]
    fn a_secret_is_known_by_its_hash_alone() {
        let memory = &mut HashMemory::default();
        let stored = hash("tröll", SMALL, &SeededEntropy::new(1), memory).unwrap();
        assert!(stored.starts_with("$argon2id$v=19$m=8,t=1,p=1$"));
        let verdict = |secret: &str, today, memory: &mut HashMemory| {
            verify(secret, &stored, today, memory).unwrap()
        };
        let found = verdict("tröll", SMALL, memory);
        assert!(found.matches && !found.outdated);
        assert!(!verdict("troll", SMALL, memory).matches);
        assert!(!verdict("tröl", SMALL, memory).matches);
        let dearer = Cost {
            iterations: 2,
            ..SMALL
        };
        let found = verdict("tröll", dearer, memory);
        assert!(found.matches && found.outdated);
    }

    #[test]
    fn memory_of_an_earlier_hash_changes_nothing() {
        let memory = &mut HashMemory::default();
        let large = Cost {
            memory_kib: 64,
            ..SMALL
        };
        let stored = hash("a", SMALL, &SeededEntropy::new(1), memory).unwrap();
        hash("b", large, &SeededEntropy::new(2), memory).unwrap();
        assert!(verify("a", &stored, SMALL, memory).unwrap().matches);
    }

    #[test]
    fn the_hash_is_that_of_other_implementations() {
        // The reference implementation's own test: "password", "somesalt", t=2, m=64 MiB, p=1.
        let stored = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ\
                      $CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
        let memory = &mut HashMemory::default();
        assert!(verify("password", stored, SMALL, memory).unwrap().matches);
    }

    #[test]
    fn a_dear_hash_keeps_no_memory() {
        let memory = &mut HashMemory::default();
        let large = Cost {
            memory_kib: 1_024,
            ..SMALL
        };
        let stored = hash("a", large, &SeededEntropy::new(1), memory).unwrap();
        assert!(verify("a", &stored, SMALL, memory).unwrap().matches);
        assert_eq!(memory.blocks.len(), 8);
        assert_eq!(memory.counts.argon2(), 2);
    }

    #[test]
    fn nobody_has_no_password() {
        let memory = &mut HashMemory::default();
        for secret in ["", "a", "troll under the bridge"] {
            let verdict = verify(secret, &dummy(SMALL), SMALL, memory).unwrap();
            assert!(!verdict.matches && !verdict.outdated);
        }
    }

    #[test]
    fn what_is_no_sound_hash_is_refused() {
        let memory = &mut HashMemory::default();
        let good = hash("a", SMALL, &SeededEntropy::new(1), memory).unwrap();
        for bad in [
            String::new(),
            good.replace("argon2id", "argon2x"),
            good.replace("m=8", "m=4294967295"),
            good.replace("t=1", "t=4294967295"),
            good.replace("p=1", "p=0"),
            good.replace("m=8,", ""),
            format!("{good}$"),
            good.chars().take(good.len() - 1).collect(),
        ] {
            assert_eq!(
                verify("a", &bad, SMALL, memory),
                Err(HashingFailed),
                "{bad}"
            );
        }
    }
}
