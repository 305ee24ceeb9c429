//! Hashing of passwords and PINs with argon2id; also verifies imported hashes of other services.
//!
//! A hash takes about 16 ms and 19 MiB, so it must run in the bounded hashing pool, never on a runtime or store
//! thread.

mod firebase;
mod frameworks;
mod hash_format;
mod parts;

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use argon2::{Algorithm, Argon2, Block, Params, Version};
use data_encoding::BASE64_NOPAD;

use hash_format::HashFormat;
use playgate_ports::Entropy;
use playgate_types::{Malformed, Password};

const SALT_BYTES: usize = 16;
const OUTPUT_BYTES: usize = 32;
/// Limits of configured and stored parameters: 1 GiB, and a few seconds. Imported hashes have lower limits.
const MEMORY_KIB_MAX: u32 = 1024 * 1024;
const ITERATIONS_MAX: u32 = 64;
const PARALLELISM_MAX: u32 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    pub memory_kib: u32,
    pub iterations: u32,
    pub parallelism: u32,
}

impl Default for Cost {
    fn default() -> Self {
        Self {
            // OWASP's recommendation for argon2id.
            memory_kib: 19 * 1024,
            iterations: 2,
            parallelism: 1,
        }
    }
}

impl Cost {
    pub fn is_sound(&self) -> bool {
        self.memory_kib <= MEMORY_KIB_MAX
            && self.iterations <= ITERATIONS_MAX
            && self.parallelism <= PARALLELISM_MAX
            && self.params(OUTPUT_BYTES).is_some()
    }

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

#[derive(Debug, Default)]
pub struct HashCounts {
    argon2: AtomicU64,
    foreign: AtomicU64,
}

impl HashCounts {
    /// The number of argon2 runs, including those for imported hashes.
    pub fn argon2(&self) -> u64 {
        self.argon2.load(Relaxed)
    }

    /// The number of runs of other functions, which only imported hashes need.
    pub fn foreign(&self) -> u64 {
        self.foreign.load(Relaxed)
    }
}

/// Memory that a thread reuses for its hashes: fresh pages would cost a quarter more time.
#[derive(Default)]
pub struct HashMemory {
    blocks: Vec<Block>,
    counts: Arc<HashCounts>,
}

impl HashMemory {
    pub const fn counted(counts: Arc<HashCounts>) -> Self {
        Self {
            blocks: Vec::new(),
            counts,
        }
    }

    /// Frees the memory that an imported, costlier hash needed beyond the configured cost.
    fn trim(&mut self, today: Cost) {
        let kept = today
            .params(OUTPUT_BYTES)
            .map_or(0, |params| params.block_count());
        if self.blocks.len() > kept {
            self.blocks.truncate(kept);
            self.blocks.shrink_to_fit();
        }
    }
}

/// A hash of another service, of a known kind and within the cost limits. The first login replaces it with a hash of
/// this service.
pub struct ForeignHash(String);

impl ForeignHash {
    /// Parses argon2 (i, d, id), bcrypt (`$2a$`, `$2b$`, `$2y$`), scrypt and PBKDF2 in PHC format, Firebase's scrypt, and
    /// what Django, Werkzeug, Spring Security and ASP.NET write.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let text = text.trim();
        let translated =
            frameworks::translate(text).filter(|text| HashFormat::parse(text).is_some());
        let text = translated.as_deref().unwrap_or(text);
        let stored =
            HashFormat::parse(text).ok_or_else(|| {
                Malformed(frameworks::unsupported(text).unwrap_or(
                    "must be a hash of argon2, bcrypt, scrypt or PBKDF2 in its usual form",
                ))
            })?;
        // A login must not cost more than the limits, or imported hashes would block the pool.
        if stored.is_affordable() {
            Ok(Self(text.to_owned()))
        } else {
            Err(Malformed(
                "exceeds the cost limit: at most 128 MiB, and about a second of one core",
            ))
        }
    }

    pub(super) fn into_stored(self) -> String {
        self.0
    }
}

/// Hashes a secret with a random salt and returns the stored form.
pub(super) fn hash(
    secret: &str,
    cost: Cost,
    entropy: &dyn Entropy,
    memory: &mut HashMemory,
) -> Result<String, HashingFailed> {
    let salt: [u8; SALT_BYTES] = entropy.array();
    let mut output = [0; OUTPUT_BYTES];
    let ours = (Algorithm::Argon2id, Version::V0x13);
    compute(ours, secret, &salt, cost, &mut output, memory)?;
    Ok(format_stored(cost, &salt, &output))
}

/// Formats `$argon2id$v=19$m=…,t=…,p=…$salt$hash`.
fn format_stored(cost: Cost, salt: &[u8], output: &[u8]) -> String {
    let Cost {
        memory_kib: m,
        iterations: t,
        parallelism: p,
    } = cost;
    let mut text = String::with_capacity(100);
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "$argon2id$v=19$m={m},t={t},p={p}${}${}",
        BASE64_NOPAD.encode(salt),
        BASE64_NOPAD.encode(output)
    );
    text
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PasswordVerdict {
    pub(super) matches: bool,
    /// Whether the stored hash has another function or cost than configured today.
    pub(super) outdated: bool,
}

pub(super) fn verify(
    secret: &str,
    stored: &str,
    today: Cost,
    memory: &mut HashMemory,
) -> Result<PasswordVerdict, HashingFailed> {
    // Imported hashes were parsed before they were stored: one that cannot be parsed now is damage.
    let stored = HashFormat::parse(stored).ok_or(HashingFailed)?;
    let matches = stored.matches(secret, memory)?;
    // One imported hash may need 128 MiB, which the thread must not keep.
    memory.trim(today);
    Ok(PasswordVerdict {
        matches,
        outdated: !stored.is_current(today),
    })
}

/// Checks a password in each spelling from which the stored hash may have been made.
pub(super) fn verify_password(
    password: &Password,
    stored: &str,
    today: Cost,
    memory: &mut HashMemory,
) -> Result<PasswordVerdict, HashingFailed> {
    let format = HashFormat::parse(stored).ok_or(HashingFailed)?;
    let normal = || password.reveal().to_owned();
    let spellings = if format.is_current(today) {
        // Made here, so of the normal form; a user's wrong password must not cost more than one hash. An imported hash may
        // have the same parameters, so what was typed is tried too: the decoy of an unknown user does the same.
        let mut candidates = password.spellings();
        candidates.truncate(
            candidates
                .iter()
                .position(|text| *text == normal())
                .map_or(1, |at| at + 1),
        );
        candidates.reverse();
        candidates
    } else {
        password.spellings()
    };
    let mut matching = None;
    for spelling in spellings {
        if matching.is_none() && format.matches(&spelling, memory)? {
            matching = Some(spelling);
        }
    }
    memory.trim(today);
    // Of another spelling it is replaced, so that the password works on every keyboard.
    let is_normal = matching
        .as_deref()
        .is_none_or(|text| text == password.reveal());
    Ok(PasswordVerdict {
        matches: matching.is_some(),
        outdated: !format.is_current(today) || !is_normal,
    })
}

/// Returns a hash at the current cost that no secret matches.
pub(super) fn dummy(cost: Cost) -> String {
    // No secret is known whose hash is all zeros.
    format_stored(cost, &[0; SALT_BYTES], &[0; OUTPUT_BYTES])
}

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
        // It only grows: the next hash uses the same pages.
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
    use playgate_ports::SeededEntropy;

    const SMALL: Cost = Cost {
        memory_kib: 8,
        iterations: 1,
        parallelism: 1,
    };

    #[test]
    fn hash_verifies_only_its_secret() {
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
    fn reused_memory_does_not_change_hashes() {
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
    fn hash_matches_the_reference_implementation() {
        // Test vector of the reference implementation: "password", "somesalt", t=2, m=64 MiB, p=1.
        let stored = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ\
                      $CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
        let memory = &mut HashMemory::default();
        assert!(verify("password", stored, SMALL, memory).unwrap().matches);
    }

    #[test]
    fn costly_hash_frees_its_memory() {
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
    fn dummy_hash_matches_no_password() {
        let memory = &mut HashMemory::default();
        for secret in ["", "a", "troll under the bridge"] {
            let verdict = verify(secret, &dummy(SMALL), SMALL, memory).unwrap();
            assert!(!verdict.matches && !verdict.outdated);
        }
    }

    #[test]
    fn malformed_stored_hashes_are_rejected() {
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
