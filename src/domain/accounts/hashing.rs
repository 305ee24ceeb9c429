//! argon2id over passwords and PINs, in memory that is used again and again.
//!
//! A hash takes some 16 ms and 19 MiB: it runs in a bounded lane, never on a thread of the runtime
//! or of the store.

use std::fmt::Write as _;

use argon2::{Algorithm, Argon2, Block, Params, Version};
use data_encoding::BASE64_NOPAD;

use crate::ports::Entropy;

const SALT: usize = 16;
const OUTPUT: usize = 32;
/// Bounds on the parameters of a stored hash, which an import may have brought: 1 GiB, and what
/// takes seconds at most.
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
            && self.params().is_some()
    }

    fn params(&self) -> Option<Params> {
        Params::new(
            self.memory_kib,
            self.iterations,
            self.parallelism,
            Some(OUTPUT),
        )
        .ok()
    }
}

/// The blocks that hashes of one thread are made in, kept from one to the next: fresh pages would
/// cost a quarter of the time again.
#[derive(Default)]
pub struct HashMemory(Vec<Block>);

/// A salted hash with its parameters, as it is stored: `$argon2id$v=19$m=…,t=…,p=…$salt$hash`.
#[derive(Clone, PartialEq, Eq)]
struct Parts {
    cost: Cost,
    salt: Vec<u8>,
    output: [u8; OUTPUT],
}

/// Hashes `secret` with a fresh salt; the stored form.
pub(super) fn hash(
    secret: &str,
    cost: Cost,
    entropy: &dyn Entropy,
    memory: &mut HashMemory,
) -> Result<String, HashingFailed> {
    let salt: [u8; SALT] = entropy.array();
    let output = compute(secret, &salt, cost, memory)?;
    let mut text = String::with_capacity(100);
    let Cost {
        memory_kib: m,
        iterations: t,
        parallelism: p,
    } = cost;
    // Writing to a string does not fail.
    let _ = write!(
        text,
        "$argon2id$v=19$m={m},t={t},p={p}${}${}",
        BASE64_NOPAD.encode(&salt),
        BASE64_NOPAD.encode(&output)
    );
    Ok(text)
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
    let parts = parse(stored).ok_or(HashingFailed)?;
    let output = compute(secret, &parts.salt, parts.cost, memory)?;
    Ok(Verdict {
        matches: same(&output, &parts.output),
        outdated: parts.cost != today,
    })
}

/// Spends what [`verify`] would on a hash of today's cost, for a user who does not exist: the two
/// cannot be told apart by time.
pub(super) fn spend(
    secret: &str,
    cost: Cost,
    memory: &mut HashMemory,
) -> Result<(), HashingFailed> {
    compute(secret, &[0; SALT], cost, memory).map(|_| ())
}

/// The stored hash or the parameters are none that argon2 takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HashingFailed;

fn compute(
    secret: &str,
    salt: &[u8],
    cost: Cost,
    memory: &mut HashMemory,
) -> Result<[u8; OUTPUT], HashingFailed> {
    let params = cost.params().ok_or(HashingFailed)?;
    let count = params.block_count();
    if memory.0.len() < count {
        memory.0.resize(count, Block::new());
    }
    let blocks = memory.0.get_mut(..count).ok_or(HashingFailed)?;
    let mut output = [0; OUTPUT];
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into_with_memory(secret.as_bytes(), salt, &mut output, blocks)
        .map_err(|_| HashingFailed)?;
    Ok(output)
}

/// Looks at every byte, whatever the first says.
fn same(a: &[u8; OUTPUT], b: &[u8; OUTPUT]) -> bool {
    a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

fn parse(stored: &str) -> Option<Parts> {
    let mut fields = stored.strip_prefix("$argon2id$v=19$")?.split('$');
    let (costs, salt, output) = (fields.next()?, fields.next()?, fields.next()?);
    let mut numbers = costs.split(',');
    let mut number =
        |name: &str| -> Option<u32> { numbers.next()?.strip_prefix(name)?.parse().ok() };
    let cost = Cost {
        memory_kib: number("m=")?,
        iterations: number("t=")?,
        parallelism: number("p=")?,
    };
    let whole = fields.next().is_none() && numbers.next().is_none() && cost.is_sound();
    whole.then_some(Parts {
        cost,
        salt: BASE64_NOPAD.decode(salt.as_bytes()).ok()?,
        output: BASE64_NOPAD
            .decode(output.as_bytes())
            .ok()?
            .try_into()
            .ok()?,
    })
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
    fn what_is_no_sound_hash_is_refused() {
        let memory = &mut HashMemory::default();
        let good = hash("a", SMALL, &SeededEntropy::new(1), memory).unwrap();
        for bad in [
            String::new(),
            good.replace("argon2id", "argon2i"),
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
