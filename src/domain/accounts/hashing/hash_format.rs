//! Formats of stored hashes: argon2id of this service, and those of other services.

use std::num::NonZeroU32;
use std::str::FromStr as _;
use std::sync::atomic::Ordering::Relaxed;

use argon2::{Algorithm, Version};
use data_encoding::{BASE64, BASE64_NOPAD};
use ring::{digest, pbkdf2};

use super::firebase::FirebaseScrypt;
use super::parts::{constant_time_eq, number, numbers};
use super::{Cost, HashMemory, HashingFailed, OUTPUT_BYTES, compute};

/// In bytes.
const LENGTH_MAX: usize = 512;
/// Accepted lengths in bytes. Shorter outputs can be guessed, and no known service uses longer ones.
const OUTPUTS: std::ops::RangeInclusive<usize> = 16..=64;
/// Bytes of a password that bcrypt hashes; it ignores the rest.
const BCRYPT_BYTES: usize = 72;

const BCRYPT_COST_MIN: u32 = 4;

/// Cost limits of imported hashes. They include the defaults of other services (100 MiB in Django's argon2, 128
/// MiB in the scrypt parameters that OWASP recommends) at about a second of one core: ten such logins must not
/// block the service.
mod bounds {
    pub(super) const MEMORY_KIB: u64 = 128 * 1024;
    /// argon2: memory × iterations.
    pub(super) const ARGON2_KIB: u64 = 1024 * 1024;
    /// bcrypt: log2 of the rounds.
    pub(super) const BCRYPT: u32 = 13;
    /// scrypt: N · r · p.
    pub(super) const SCRYPT: u64 = 1 << 21;
    /// PBKDF2: rounds × output blocks, because each block runs all rounds.
    pub(super) const PBKDF2: u64 = 2_000_000;
}

pub(super) enum HashFormat {
    Argon2 {
        kind: (Algorithm, Version),
        cost: Cost,
        salt: Vec<u8>,
        output: Vec<u8>,
    },
    Bcrypt {
        cost: u32,
        text: String,
    },
    Scrypt {
        log_n: u8,
        r: u32,
        p: u32,
        salt: Vec<u8>,
        output: Vec<u8>,
    },
    Pbkdf2 {
        digest: pbkdf2::Algorithm,
        rounds: NonZeroU32,
        salt: Vec<u8>,
        output: Vec<u8>,
    },
    Firebase(FirebaseScrypt),
}

impl HashFormat {
    pub(super) fn parse(text: &str) -> Option<Self> {
        // Bounds the work of all parsers below.
        if text.len() > LENGTH_MAX {
            return None;
        }
        // All formats but Django's begin with `$`.
        let Some(rest) = text.strip_prefix('$') else {
            return django(text);
        };
        let (id, rest) = rest.split_once('$')?;
        match id {
            "argon2id" => argon2(Algorithm::Argon2id, rest),
            "argon2i" => argon2(Algorithm::Argon2i, rest),
            "argon2d" => argon2(Algorithm::Argon2d, rest),
            // One algorithm: the letters name fixed bugs of implementations.
            "2a" | "2b" | "2y" => {
                let cost = bcrypt::HashParts::from_str(text).ok()?.get_cost();
                // bcrypt defines no lower costs, and the check of a password would fail.
                (cost >= BCRYPT_COST_MIN).then(|| Self::Bcrypt {
                    cost,
                    text: text.to_owned(),
                })
            }
            "scrypt" => scrypt(rest),
            "firebase-scrypt" => FirebaseScrypt::parse(rest).map(Self::Firebase),
            "pbkdf2" | "pbkdf2-sha1" => pbkdf2(pbkdf2::PBKDF2_HMAC_SHA1, rest),
            "pbkdf2-sha256" => pbkdf2(pbkdf2::PBKDF2_HMAC_SHA256, rest),
            "pbkdf2-sha512" => pbkdf2(pbkdf2::PBKDF2_HMAC_SHA512, rest),
            _ => None,
        }
    }

    /// Returns whether the cost is within the limits of imported hashes.
    pub(super) fn is_affordable(&self) -> bool {
        match self {
            Self::Argon2 { cost, .. } => {
                let memory = u64::from(cost.memory_kib);
                memory <= bounds::MEMORY_KIB
                    && memory * u64::from(cost.iterations) <= bounds::ARGON2_KIB
            }
            Self::Bcrypt { cost, .. } => *cost <= bounds::BCRYPT,
            Self::Scrypt { log_n, r, p, .. } => scrypt_is_affordable(*log_n, *r, *p),
            Self::Firebase(hash) => scrypt_is_affordable(hash.log_n, hash.r, 1),
            Self::Pbkdf2 {
                digest,
                rounds,
                output,
                ..
            } => {
                // Each block runs all rounds.
                let blocks = output.len().div_ceil(block_length(*digest));
                let rounds = u64::from(rounds.get());
                u64::try_from(blocks).is_ok_and(|blocks| rounds * blocks <= bounds::PBKDF2)
            }
        }
    }

    /// Returns whether this service would make such a hash today: argon2id at the cost `today`.
    pub(super) fn is_current(&self, today: Cost) -> bool {
        let ours = (Algorithm::Argon2id, Version::V0x13);
        match self {
            Self::Argon2 {
                kind, cost, output, ..
            } => *kind == ours && *cost == today && output.len() == OUTPUT_BYTES,
            Self::Bcrypt { .. } | Self::Scrypt { .. } | Self::Pbkdf2 { .. } | Self::Firebase(_) => {
                false
            }
        }
    }

    pub(super) fn matches(
        &self,
        secret: &str,
        memory: &mut HashMemory,
    ) -> Result<bool, HashingFailed> {
        if !matches!(self, Self::Argon2 { .. }) {
            // `compute` counts the runs of argon2.
            memory.counts.foreign.fetch_add(1, Relaxed);
        }
        let bytes = secret.as_bytes();
        match self {
            Self::Argon2 {
                kind,
                cost,
                salt,
                output,
            } => {
                let mut found = vec![0; output.len()];
                compute(*kind, secret, salt, *cost, &mut found, memory)?;
                Ok(constant_time_eq(&found, output))
            }
            // bcrypt ignores the end of a longer password. Accepting its beginning would let in a person who
            // knows only that part, so longer passwords fail: such users need a reset.
            Self::Bcrypt { text, .. } => {
                let seen = bytes.get(..BCRYPT_BYTES).unwrap_or(bytes);
                let matches = bcrypt::verify(seen, text).map_err(|_| HashingFailed)?;
                Ok(matches && bytes.len() <= BCRYPT_BYTES)
            }
            Self::Scrypt {
                log_n,
                r,
                p,
                salt,
                output,
            } => {
                let params = scrypt::Params::new(*log_n, *r, *p).map_err(|_| HashingFailed)?;
                let mut found = vec![0; output.len()];
                scrypt::scrypt(bytes, salt, &params, &mut found).map_err(|_| HashingFailed)?;
                Ok(constant_time_eq(&found, output))
            }
            Self::Pbkdf2 {
                digest,
                rounds,
                salt,
                output,
            } => Ok(pbkdf2::verify(*digest, *rounds, salt, bytes, output).is_ok()),
            Self::Firebase(hash) => hash.matches(bytes),
        }
    }
}

fn scrypt_is_affordable(log_n: u8, r: u32, p: u32) -> bool {
    let blocks = 1_u64
        // The numbers are input, so their product may overflow.
        .checked_shl(u32::from(log_n))
        .and_then(|n| n.checked_mul(u64::from(r)));
    blocks.is_some_and(|blocks| {
        // A block has 128 bytes.
        blocks / 8 <= bounds::MEMORY_KIB && blocks.saturating_mul(u64::from(p)) <= bounds::SCRYPT
    })
}

fn block_length(digest: pbkdf2::Algorithm) -> usize {
    if digest == pbkdf2::PBKDF2_HMAC_SHA1 {
        digest::SHA1_OUTPUT_LEN
    } else if digest == pbkdf2::PBKDF2_HMAC_SHA256 {
        digest::SHA256_OUTPUT_LEN
    } else {
        digest::SHA512_OUTPUT_LEN
    }
}

/// Parses `v=19$m=…,t=…,p=…$salt$hash`; the version defaults to 16.
fn argon2(algorithm: Algorithm, rest: &str) -> Option<HashFormat> {
    let (version, rest) = match rest.strip_prefix("v=") {
        Some(rest) => rest.split_once('$')?,
        // Argon2 before version 1.3 (19) did not write its version, which was 1.0 (16).
        None => ("16", rest),
    };
    let version = Version::try_from(number(version)?).ok()?;
    let (costs, salt, output) = split_three_fields(rest)?;
    let [memory_kib, iterations, parallelism] = numbers(costs, ["m=", "t=", "p="])?;
    let cost = Cost {
        memory_kib,
        iterations,
        parallelism,
    };
    let salt = BASE64_NOPAD.decode(salt.as_bytes()).ok()?;
    // argon2 rejects shorter salts, so the check of a password would fail.
    let is_valid = cost.is_sound() && salt.len() >= argon2::MIN_SALT_LEN;
    is_valid.then_some(HashFormat::Argon2 {
        kind: (algorithm, version),
        cost,
        salt,
        output: check_output_length(BASE64_NOPAD.decode(output.as_bytes()).ok()?)?,
    })
}

fn scrypt(rest: &str) -> Option<HashFormat> {
    let (costs, salt, output) = split_three_fields(rest)?;
    let [log_n, r, p] = numbers(costs, ["ln=", "r=", "p="])?;
    let log_n = u8::try_from(log_n).ok()?;
    // No known service uses more, and the product must not overflow.
    let sound = (1..=64).contains(&r) && (1..=64).contains(&p);
    (sound && scrypt::Params::new(log_n, r, p).is_ok()).then_some(HashFormat::Scrypt {
        log_n,
        r,
        p,
        salt: BASE64_NOPAD.decode(salt.as_bytes()).ok()?,
        output: check_output_length(BASE64_NOPAD.decode(output.as_bytes()).ok()?)?,
    })
}

/// Parses `i=…[,l=…]$salt$hash`, or the passlib form: only the rounds, and `.` instead of `+`.
fn pbkdf2(digest: pbkdf2::Algorithm, rest: &str) -> Option<HashFormat> {
    let (costs, salt, output) = split_three_fields(rest)?;
    // passlib writes `.` for `+`.
    let base64 = |text: &str| BASE64_NOPAD.decode(text.replace('.', "+").as_bytes()).ok();
    let output = base64(output)?;
    let rounds = match costs.split_once(',') {
        None => number(costs.strip_prefix("i=").unwrap_or(costs))?,
        Some(_) => {
            let [rounds, length] = numbers(costs, ["i=", "l="])?;
            // `l` repeats the length of the hash.
            (usize::try_from(length).ok()? == output.len()).then_some(rounds)?
        }
    };
    new_pbkdf2(digest, rounds, base64(salt)?, output)
}

/// Parses `pbkdf2_sha256$rounds$salt$hash`, with a text salt.
fn django(text: &str) -> Option<HashFormat> {
    let (id, rest) = text.split_once('$')?;
    let digest = match id {
        "pbkdf2_sha256" => pbkdf2::PBKDF2_HMAC_SHA256,
        "pbkdf2_sha1" => pbkdf2::PBKDF2_HMAC_SHA1,
        _ => return None,
    };
    let (rounds, salt, output) = split_three_fields(rest)?;
    // Django pads its base64; the PHC format does not.
    let output = BASE64.decode(output.as_bytes()).ok()?;
    new_pbkdf2(digest, number(rounds)?, salt.as_bytes().to_vec(), output)
}

fn new_pbkdf2(
    digest: pbkdf2::Algorithm,
    rounds: u32,
    salt: Vec<u8>,
    output: Vec<u8>,
) -> Option<HashFormat> {
    Some(HashFormat::Pbkdf2 {
        digest,
        rounds: NonZeroU32::new(rounds)?,
        salt,
        output: check_output_length(output)?,
    })
}

fn check_output_length(output: Vec<u8>) -> Option<Vec<u8>> {
    OUTPUTS.contains(&output.len()).then_some(output)
}

fn split_three_fields(text: &str) -> Option<(&str, &str, &str)> {
    let mut fields = text.split('$');
    let found = (fields.next()?, fields.next()?, fields.next()?);
    fields.next().is_none().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWORD: &str = "correct horse";

    fn matches(secret: &str, stored: &str) -> bool {
        let memory = &mut HashMemory::default();
        let stored = HashFormat::parse(stored).unwrap_or_else(|| panic!("{stored}"));
        stored.matches(secret, memory).unwrap()
    }

    /// Made by other implementations: libxcrypt, OpenSSL through Python's hashlib, and the test vectors of the
    /// argon2 reference implementation (password `password`).
    const FOREIGN: [(&str, &str); 10] = [
        (
            PASSWORD,
            "$2a$04$abcdefghijklmnopqrstuujydOTSfIH/d5oUHpsygqV5X9xJLQc6e",
        ),
        (
            PASSWORD,
            "$2b$04$abcdefghijklmnopqrstuujydOTSfIH/d5oUHpsygqV5X9xJLQc6e",
        ),
        (
            PASSWORD,
            "$2y$04$abcdefghijklmnopqrstuujydOTSfIH/d5oUHpsygqV5X9xJLQc6e",
        ),
        (
            PASSWORD,
            "$scrypt$ln=4,r=8,p=1$c2FsdHNhbHRzYWx0c2FsdA$rkTI9fAgA7thDzzR8FHXhMiojYBreJBmYTkEzWypBCQ",
        ),
        (
            PASSWORD,
            "$pbkdf2-sha256$i=1000,l=32$c2FsdHNhbHRzYWx0c2FsdA$BBs+1+PaslLtBPULUr8/lQicvVuHiEPMz0i8MjLCbzM",
        ),
        (
            PASSWORD,
            "$pbkdf2-sha512$1000$c2FsdHNhbHRzYWx0c2FsdA$EHLBej.uEvxlmr0QnHnceg1vM6h1wbwSP5XErh3SmizNDWZsIi28RPGARe0EssjGRoiACzxgHjNvqwJY1zxKig",
        ),
        (
            PASSWORD,
            "$pbkdf2$1000$c2FsdHNhbHRzYWx0c2FsdA$EUcKisx.yviAqdTmlEPmy.5ykUU",
        ),
        (
            PASSWORD,
            "pbkdf2_sha256$1000$saltyDjango$FHkJhB0xzR0QY5dX8s1hL9Y7yTGZBbWuDIfMMyaaJgY=",
        ),
        (
            "password",
            "$argon2i$v=19$m=256,t=2,p=1$c29tZXNhbHQ$iekCn0Y3spW+sCcFanM2xBT63UP2sghkUoHLIUpWRS8",
        ),
        (
            "password",
            "$argon2i$m=65536,t=2,p=1$c29tZXNhbHQ$9sTbSlTio3Biev89thdrlKKiCaYsjjYVJxGAL3swxpQ",
        ),
    ];

    #[test]
    fn hashes_of_other_services_verify() {
        for (secret, stored) in FOREIGN {
            assert!(matches(secret, stored), "{stored}");
            for wrong in ["", "correct horsf", "correct hors", "passwor"] {
                assert!(!matches(wrong, stored), "{stored}");
            }
            let read = HashFormat::parse(stored).unwrap();
            assert!(
                read.is_affordable() && !read.is_current(Cost::default()),
                "{stored}"
            );
        }
    }

    #[test]
    fn long_bcrypt_passwords_are_not_truncated() {
        // libxcrypt gives the same hash for 72 bytes and for 72 bytes with a suffix.
        let stored = "$2b$04$abcdefghijklmnopqrstuubzadhGtS2zEF.gu0yd0opP6cVzb.e0i";
        let whole = "x".repeat(72);
        assert!(matches(&whole, stored));
        assert!(!matches(&format!("{whole}y"), stored));
        let (_, short) = FOREIGN[1];
        assert!(!matches(&format!("{PASSWORD}\0more"), short));
    }

    #[test]
    fn costly_hashes_are_parsed_but_not_affordable() {
        let affordable = |stored: &str| {
            let stored = HashFormat::parse(stored).unwrap_or_else(|| panic!("{stored}"));
            stored.is_affordable()
        };
        let (salt, output) = (
            "c2FsdHNhbHRzYWx0c2FsdA",
            "iekCn0Y3spW+sCcFanM2xBT63UP2sghkUoHLIUpWRS8",
        );
        let bcrypt =
            |cost: u32| format!("$2b${cost}$abcdefghijklmnopqrstuujydOTSfIH/d5oUHpsygqV5X9xJLQc6e");
        for (dear, cheap) in [
            (
                "argon2id$v=19$m=131073,t=1,p=1",
                "argon2id$v=19$m=131072,t=8,p=1",
            ),
            (
                "argon2id$v=19$m=131072,t=9,p=1",
                "argon2id$v=19$m=102400,t=2,p=8",
            ),
            (
                "argon2d$v=16$m=32768,t=33,p=1",
                "argon2d$v=16$m=32768,t=32,p=1",
            ),
            ("scrypt$ln=18,r=8,p=1", "scrypt$ln=17,r=8,p=1"),
            ("scrypt$ln=17,r=8,p=3", "scrypt$ln=16,r=8,p=1"),
            ("scrypt$ln=40,r=1,p=1", "scrypt$ln=14,r=8,p=5"),
            ("pbkdf2-sha512$i=2000001", "pbkdf2-sha512$i=2000000"),
        ] {
            assert!(!affordable(&format!("${dear}${salt}${output}")), "{dear}");
            assert!(affordable(&format!("${cheap}${salt}${output}")), "{cheap}");
        }
        // SHA-1: 32 bytes of output need two blocks, 64 need four.
        let long = BASE64_NOPAD.encode(&[7; 64]);
        assert!(!affordable(&format!("$pbkdf2$1000001${salt}${output}")));
        assert!(affordable(&format!("$pbkdf2$1000000${salt}${output}")));
        assert!(!affordable(&format!("$pbkdf2$500001${salt}${long}")));
        assert!(!affordable(&format!(
            "$pbkdf2-sha256$1000001${salt}${long}"
        )));
        assert!(affordable(&format!("$pbkdf2-sha512$2000000${salt}${long}")));
        assert!(!affordable(&bcrypt(14)) && affordable(&bcrypt(13)));
    }

    #[test]
    fn malformed_hashes_are_rejected() {
        let good = FOREIGN.map(|(_, stored)| stored);
        let mut bad: Vec<String> = [
            "",
            "$",
            "plain",
            "$1$abc$def",
            "5f4dcc3b5aa765d61d8327deb882cf99",
        ]
        .map(str::to_owned)
        .into();
        bad.push(good[1].replace("$2b", "$2x"));
        bad.push(good[1].replace("$04", "$4"));
        bad.push(good[1].replace("$04", "$03"));
        bad.push(good[8].replace("c29tZXNhbHQ", "c29tZXNhbA"));
        bad.push(good[3].replace("ln=4", "ln=+4"));
        bad.push(good[3].replace("r=8,p=1", "r=8"));
        bad.push(good[3].replace("r=8", "r=65"));
        bad.push(good[3].replace("ln=4,r=8", "r=8,ln=4"));
        bad.push(good[4].replace("l=32", "l=31"));
        bad.push(good[4].replace("i=1000", "i=0"));
        bad.push(good[4].replace("i=1000", "i=99999999999"));
        bad.push(good[7].replace("1000", ""));
        bad.push(good[7].replace("sha256", "md5"));
        bad.push(good[8].replace("v=19", "v=18"));
        bad.push(good[8].replace("p=1", "p=1,keyid=AAAA"));
        bad.extend(good.map(|good| format!("{good}$")));
        bad.extend(good.map(|good| format!("{}$AAAAAAAA", good.rsplit_once('$').unwrap().0)));
        bad.push(format!(
            "$argon2i$v=19$m=256,t=2,p=1${}$AAAA",
            "A".repeat(600)
        ));
        for bad in bad {
            assert!(HashFormat::parse(&bad).is_none(), "{bad}");
        }
    }
}
