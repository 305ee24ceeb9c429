//! Hashes as web frameworks write them, translated to the forms that `hash_format` reads.
//!
//! They differ in spelling only: separators, hexadecimal instead of base64, the order of parameters. Where a framework leaves
//! its parameters out of the text, they are those of its documented default.

use data_encoding::{BASE64, BASE64_NOPAD, HEXLOWER_PERMISSIVE};

/// Returns the hash in PHC form; `None` if none of these frameworks wrote it.
pub(super) fn translate(text: &str) -> Option<String> {
    spring(text)
        .or_else(|| werkzeug(text))
        .or_else(|| django(text))
        .or_else(|| dovecot(text))
        .or_else(|| asp_net(text))
}

fn pbkdf2(digest: &str, rounds: &str, salt: &[u8], output: &[u8]) -> String {
    let (salt, output) = (BASE64_NOPAD.encode(salt), BASE64_NOPAD.encode(output));
    format!("$pbkdf2-{digest}$i={rounds}${salt}${output}")
}

fn scrypt(cost: (u32, &str, &str), salt: &[u8], output: &[u8]) -> String {
    let (salt, output) = (BASE64_NOPAD.encode(salt), BASE64_NOPAD.encode(output));
    let (log_n, r, p) = cost;
    format!("$scrypt$ln={log_n},r={r},p={p}${salt}${output}")
}

/// The cost N as its logarithm; `None` if it is not a power of two.
fn log_of(n: &str) -> Option<u32> {
    let n: u64 = n.parse().ok()?;
    n.is_power_of_two().then(|| n.trailing_zeros())
}

fn hex(text: &str) -> Option<Vec<u8>> {
    HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()
}

/// Werkzeug, which Flask uses: `pbkdf2:sha256:260000$salt$hex`, `scrypt:32768:8:1$salt$hex`. The salt is text.
fn werkzeug(text: &str) -> Option<String> {
    let mut fields = text.split('$');
    let (method, salt, output) = (fields.next()?, fields.next()?, fields.next()?);
    let output = hex(output).filter(|_| fields.next().is_none())?;
    let method: Vec<&str> = method.split(':').collect();
    match method.as_slice() {
        ["pbkdf2", digest, rounds] => Some(pbkdf2(digest, rounds, salt.as_bytes(), &output)),
        ["scrypt", n, r, p] => Some(scrypt((log_of(n)?, r, p), salt.as_bytes(), &output)),
        _ => None,
    }
}

/// Django, besides its PBKDF2: `argon2$argon2id$…`, `bcrypt$$2b$…`, `scrypt$N$salt$r$p$hash`.
fn django(text: &str) -> Option<String> {
    let (id, rest) = text.split_once('$')?;
    match id {
        "argon2" => Some(format!("${rest}")),
        "bcrypt" => Some(rest.to_owned()).filter(|rest| rest.starts_with("$2")),
        "scrypt" => {
            let fields: Vec<&str> = rest.split('$').collect();
            let [n, salt, r, p, output] = fields.as_slice() else {
                return None;
            };
            let output = BASE64.decode(output.as_bytes()).ok()?;
            Some(scrypt((log_of(n)?, r, p), salt.as_bytes(), &output))
        }
        _ => None,
    }
}

/// Spring Security: the encoder in braces, then its hash.
fn spring(text: &str) -> Option<String> {
    let (id, hash) = text.strip_prefix('{')?.split_once('}')?;
    // The defaults that carry no parameters in the hash: salt bytes, rounds and digest.
    let of_default = |salt: usize, rounds: &str, digest: &str| {
        let bytes = hex(hash)?;
        let (salt, output) = bytes.split_at_checked(salt)?;
        Some(pbkdf2(digest, rounds, salt, output))
    };
    match id {
        "bcrypt" => Some(hash.to_owned()),
        "argon2" | "argon2@SpringSecurity_v5_8" => Some(hash.to_owned()),
        "pbkdf2" => of_default(8, "185000", "sha1"),
        "pbkdf2@SpringSecurity_v5_8" => of_default(16, "310000", "sha256"),
        "scrypt" | "scrypt@SpringSecurity_v5_8" => {
            let mut fields = hash.strip_prefix('$')?.split('$');
            let (cost, salt, output) = (fields.next()?, fields.next()?, fields.next()?);
            let cost = u32::from_str_radix(cost, 16).ok()?;
            let (log_n, r, p) = (cost >> 16, cost >> 8 & 0xff, cost & 0xff);
            let decode = |text: &str| BASE64.decode(text.as_bytes()).ok();
            let (r, p) = (r.to_string(), p.to_string());
            Some(scrypt((log_n, &r, &p), &decode(salt)?, &decode(output)?))
        }
        _ => None,
    }
}

/// Dovecot and OpenLDAP: the scheme in braces, then a hash that says itself what it is, or PBKDF2 with its own separators.
fn dovecot(text: &str) -> Option<String> {
    let (scheme, hash) = text.strip_prefix('{')?.split_once('}')?;
    match scheme.to_ascii_uppercase().as_str() {
        "BLF-CRYPT" | "CRYPT" | "ARGON2I" | "ARGON2ID" | "ARGON2" => {
            Some(hash.to_owned()).filter(|hash| hash.starts_with('$'))
        }
        // `$1$salt$rounds$hex`, with SHA-1; the salt is text.
        "PBKDF2" => {
            let mut fields = hash.strip_prefix("$1$")?.split('$');
            let (salt, rounds, output) = (fields.next()?, fields.next()?, hex(fields.next()?)?);
            Some(pbkdf2("sha1", rounds, salt.as_bytes(), &output))
        }
        _ => None,
    }
}

/// ASP.NET Core Identity: base64 of a version byte, then parameters, salt and hash.
fn asp_net(text: &str) -> Option<String> {
    let bytes = BASE64.decode(text.as_bytes()).ok()?;
    let (version, rest) = bytes.split_first()?;
    match version {
        // Identity 2: 16 bytes of salt, 32 of hash, 1,000 rounds.
        0 if rest.len() == 48 => {
            let (salt, output) = rest.split_at_checked(16)?;
            Some(pbkdf2("sha1", "1000", salt, output))
        }
        1 => {
            let (digest, rest) = number(rest)?;
            let (rounds, rest) = number(rest)?;
            let (length, rest) = number(rest)?;
            let (salt, output) = rest.split_at_checked(usize::try_from(length).ok()?)?;
            let digest = match digest {
                0 => "sha1",
                1 => "sha256",
                2 => "sha512",
                _ => return None,
            };
            Some(pbkdf2(digest, &rounds.to_string(), salt, output))
        }
        _ => None,
    }
}

fn number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u32::from_be_bytes(*number), rest))
}

/// Why a hash that this service knows cannot be imported.
pub(super) fn unsupported(text: &str) -> Option<&'static str> {
    const FAST: &str = "is a hash of MD5 or SHA without many rounds, which is not imported: leave it out, and the user chooses a new password by mail";
    const OTHER: [(&str, &str); 18] = [
        (
            "{noop}",
            "is a password in plain text: send it as `password`",
        ),
        (
            "$P$",
            "is a hash of phpass (WordPress, forums), which is not imported: leave it out, and the user chooses a new password by mail",
        ),
        (
            "$H$",
            "is a hash of phpass (forums), which is not imported: leave it out, and the user chooses a new password by mail",
        ),
        (
            "$S$",
            "is a hash of Drupal, which is not imported: leave it out, and the user chooses a new password by mail",
        ),
        (
            "$5$",
            "is a hash of SHA-256-crypt, which is not imported: leave it out, and the user chooses a new password by mail",
        ),
        (
            "$6$",
            "is a hash of SHA-512-crypt, which is not imported: leave it out, and the user chooses a new password by mail",
        ),
        (
            "$y$",
            "is a hash of yescrypt, which is not imported: leave it out, and the user chooses a new password by mail",
        ),
        (
            "$wp$",
            "is a hash of WordPress, which is not imported: leave it out, and the user chooses a new password by mail",
        ),
        (
            "!",
            "marks an account without a password: leave it out, and the user chooses one by mail",
        ),
        (
            "*",
            "marks an account without a password: leave it out, and the user chooses one by mail",
        ),
        ("$1$", FAST),
        ("{SHA", FAST),
        ("{SSHA", FAST),
        ("{MD5", FAST),
        ("{SMD5", FAST),
        (
            "{",
            "is a hash of a scheme that is not imported: leave it out, and the user chooses a new password by mail",
        ),
        ("md5$", FAST),
        ("sha1$", FAST),
    ];
    // The scheme of a directory server says less than the hash behind it.
    let inner = text
        .get(..7)
        .filter(|scheme| scheme.eq_ignore_ascii_case("{CRYPT}"));
    let text = inner.map_or(text, |scheme| text.get(scheme.len()..).unwrap_or_default());
    let is_digest = matches!(text.len(), 32 | 40 | 64 | 128) && hex(text).is_some();
    let found = OTHER.iter().find(|(prefix, _)| text.starts_with(prefix));
    found.map(|(_, why)| *why).or(is_digest.then_some(FAST))
}

#[cfg(test)]
mod tests {
    use super::super::{Cost, ForeignHash, HashMemory, verify};

    fn matches(hash: &str, password: &str) -> bool {
        let stored = ForeignHash::parse(hash).map(ForeignHash::into_stored);
        let stored = stored.unwrap_or_else(|why| panic!("{hash}: {}", why.0));
        let memory = &mut HashMemory::default();
        verify(password, &stored, Cost::default(), memory)
            .unwrap()
            .matches
    }

    const PASSWORD: &str = "correct horse";
    /// Made with Python's `hashlib`; the bcrypt hash is PHP's.
    const HASHES: [&str; 15] = [
        "pbkdf2:sha256:1000$saltsalt$a900cf4996b73ab9b2cbda0ad4fbb464b2f03f64afce6c77caef0ebc376afc9d",
        "pbkdf2:sha512:1000$saltsalt$fac5120fc8f0e1ff27b3b9bd6fb923f0f7892def252573bc026d3d04b80eefd9124fd0ff2236b968a20d185e5783b864297c35f9f361073cc93f77885dc597c3",
        "scrypt:1024:8:1$saltsalt$646792c2ba294af1202d0535a6396d20d2ab46f9840529e885da985d47b9119f255fcdfd85ef17967bb51e6eaf060f14d1d8a4e461dfcd7bb56b1d9aa486025d",
        "scrypt$1024$saltsalt$8$1$ZGeSwropSvEgLQU1pjltINKrRvmEBSnohdqYXUe5EZ8lX839he8Xlnu1Hm6vBg8U0dik5GHfzXu1ax2apIYCXQ==",
        "AAABAgMEBQYHCAkKCwwNDg+d2FbDdriytxO2vgdAVMuIpGVW4BGF6o0NJn8znGUhaQ==",
        "AQAAAAEAACcQAAAAEAABAgMEBQYHCAkKCwwNDg/lFQcOA1On2wE5YZhLh7q7ntzP9Krf9NCBoM//wxbovw==",
        "AQAAAAIAACcQAAAAEAABAgMEBQYHCAkKCwwNDg8QISIXesfGJA2fd4iEPf+tC7smA1S4c2QTBevrsewdcA==",
        "{pbkdf2@SpringSecurity_v5_8}000102030405060708090a0b0c0d0e0f714eb4e46d526b82298560f1af99f32b59323cf07d3a1978bf45ba35d7c39861",
        "{pbkdf2}0001020304050607c05fca7477f7b42baef9a3ada4d1e1ee7a809d29b8f973da765bf7fa43391ff7",
        "{scrypt}$a0801$AAECAwQFBgcICQoLDA0ODw==$nfkj3u1fRTHCea+fVr03sWV770kp5wLOLoEakziKhqE=",
        "{bcrypt}$2y$04$abcdefghijklmnopqrstuujydOTSfIH/d5oUHpsygqV5X9xJLQc6e",
        "bcrypt$$2y$04$abcdefghijklmnopqrstuujydOTSfIH/d5oUHpsygqV5X9xJLQc6e",
        "{BLF-CRYPT}$2y$04$abcdefghijklmnopqrstuujydOTSfIH/d5oUHpsygqV5X9xJLQc6e",
        "{crypt}$2y$04$abcdefghijklmnopqrstuujydOTSfIH/d5oUHpsygqV5X9xJLQc6e",
        "{PBKDF2}$1$saltsalt$1000$c10a0153b19730da360890beada8a3adfea47b2e",
    ];

    #[test]
    fn hashes_of_frameworks_match_their_password_only() {
        for hash in HASHES {
            assert!(matches(hash, PASSWORD), "{hash}");
        }
        for hash in &HASHES[..7] {
            assert!(!matches(hash, "correct hors"), "{hash}");
        }
    }

    #[test]
    fn a_hash_that_cannot_be_imported_is_named() {
        for (hash, what) in [
            ("$P$B12345678abcdefghijklmnopqrstuv", "phpass"),
            ("$6$salt$abc", "SHA-512-crypt"),
            ("{SSHA}abc", "MD5 or SHA"),
            ("md5$salt$5f4dcc3b5aa765d61d8327deb882cf99", "MD5"),
            ("$wp$2y$10$abcdefghijklmnopqrstuu", "WordPress"),
            ("!", "without a password"),
            ("!PK5pqYnLr3", "without a password"),
            ("{PBKDF2_SHA256}AAAgAG==", "a scheme that is not imported"),
            ("{CRYPT}$6$salt$abc", "SHA-512-crypt"),
        ] {
            let why = ForeignHash::parse(hash).err().unwrap();
            assert!(why.0.contains(what), "{}", why.0);
        }
        for bad in [
            "",
            "x",
            "pbkdf2:sha256:0$s$00",
            "scrypt:1000:8:1$s$00",
            "{pbkdf2}zz",
            "AQ==",
        ] {
            assert!(ForeignHash::parse(bad).is_err(), "{bad}");
        }
    }
}
