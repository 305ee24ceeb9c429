//! Firebase's variant of scrypt: AES-256-CTR of the project's signer key, under a key that scrypt derives.
//!
//! Stored as `$firebase-scrypt$ln=…,r=…$salt$separator$signer key$hash`. Signer key and separator belong to the project.
//! Each stored hash contains them, so that it needs no configuration. The first login of a user replaces the hash.

use aes::Aes256;
use ctr::Ctr128BE;
use ctr::cipher::{KeyIvInit as _, StreamCipher as _};
use data_encoding::BASE64_NOPAD;

use super::HashingFailed;
use super::parts::{constant_time_eq, numbers};

/// Bytes of the signer key, and so of the hash, in every project.
const SIGNER_KEY: usize = 64;

pub(super) struct FirebaseScrypt {
    pub(super) log_n: u8,
    pub(super) r: u32,
    /// The salt of the user, followed by the separator of the project.
    salt: Vec<u8>,
    signer_key: Vec<u8>,
    output: Vec<u8>,
}

impl FirebaseScrypt {
    /// Parses the fields after `$firebase-scrypt$`.
    pub(super) fn parse(rest: &str) -> Option<Self> {
        let mut fields = rest.split('$');
        let [log_n, r] = numbers(fields.next()?, ["ln=", "r="])?;
        let mut bytes = || BASE64_NOPAD.decode(fields.next()?.as_bytes()).ok();
        let (mut salt, separator, signer_key, output) = (bytes()?, bytes()?, bytes()?, bytes()?);
        let log_n = u8::try_from(log_n).ok()?;
        let sound = fields.next().is_none()
            && log_n > 0
            // As for plain scrypt: no known project uses more, and the product of the costs must not overflow.
            && (1..=64).contains(&r)
            && scrypt::Params::new(log_n, r, 1).is_ok()
            && [signer_key.len(), output.len()] == [SIGNER_KEY; 2];
        salt.extend(separator);
        sound.then_some(Self {
            log_n,
            r,
            salt,
            signer_key,
            output,
        })
    }

    pub(super) fn matches(&self, secret: &[u8]) -> Result<bool, HashingFailed> {
        let params = scrypt::Params::new(self.log_n, self.r, 1).map_err(|_| HashingFailed)?;
        let mut key = [0; 32];
        scrypt::scrypt(secret, &self.salt, &params, &mut key).map_err(|_| HashingFailed)?;
        // The expected hash is the signer key, encrypted under the derived key with a zero IV.
        let mut found = self.signer_key.clone();
        Ctr128BE::<Aes256>::new(&key.into(), &[0; 16].into()).apply_keystream(&mut found);
        Ok(constant_time_eq(&found, &self.output))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of Firebase's own implementation.
    const EXAMPLE: &str = "ln=14,r=8$42xEC+ixf3L2lw$Bw$jxspr8Ki0RYycVU8zykbdLGjFQ3McFUH0uiiTvC8pVMXAn210wjLNmdZJzxUECKbm0QsEmYUSDzZvpjeJ9WmXA$lSrfV15cpx95/sZS2W9c9Kp6i/LVgQNDNC/qzrCnh1SAyZvqmZqAjTdn3aoItz+VHjoZilo78198JAdRuid5lQ";

    #[test]
    fn firebases_example_verifies() {
        let hash = FirebaseScrypt::parse(EXAMPLE).unwrap();
        assert!(hash.matches(b"user1password").unwrap());
        for wrong in ["", "user1passwor", "user1Password"] {
            assert!(!hash.matches(wrong.as_bytes()).unwrap(), "{wrong}");
        }
    }

    #[test]
    fn malformed_hashes_are_rejected() {
        for (part, other) in [
            ("ln=14", "ln=0"),
            ("r=8", "r=65"),
            ("r=8", "r=8,p=1"),
            ("$Bw", ""),
            ("$Bw", "$B="),
            ("5lQ", "5"),
            ("jxspr8Ki", ""),
            ("$Bw", "$Bw$Bw"),
        ] {
            let bad = EXAMPLE.replace(part, other);
            assert!(
                bad != EXAMPLE && FirebaseScrypt::parse(&bad).is_none(),
                "{bad}"
            );
        }
    }
}
