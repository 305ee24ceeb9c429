//! Encryption of secrets at rest. The key lies in a separate file next to the store, so a copy of the store
//! reveals no secret.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde::{Deserialize, Serialize};

use playgate_ports::Entropy;

/// A stored secret: nonce, ciphertext, tag.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Sealed(Box<[u8]>);

pub(crate) struct Sealer(LessSafeKey);

impl Sealer {
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        #[expect(
            clippy::expect_used,
            reason = "32 bytes are the length of this cipher's keys"
        )]
        let key = UnboundKey::new(&AES_256_GCM, key).expect("a key of 32 bytes");
        Self(LessSafeKey::new(key))
    }

    /// Seals a secret. It opens only with the same `place`.
    pub(crate) fn seal(&self, place: &[u8], secret: &[u8], entropy: &dyn Entropy) -> Sealed {
        let mut nonce = [0; NONCE_LEN];
        // Random: with 96 bits a collision among millions of secrets is negligible.
        entropy.fill(&mut nonce);
        let mut body = secret.to_vec();
        #[expect(
            clippy::expect_used,
            reason = "it fails for bodies of over 64 GiB only"
        )]
        let tag = self
            .0
            .seal_in_place_separate_tag(
                Nonce::assume_unique_for_key(nonce),
                // Associated data: a ciphertext that was copied to another place does not open there.
                Aad::from(place),
                &mut body,
            )
            .expect("a short body");
        // `open` splits the parts again; keep this order.
        Sealed([&nonce[..], &body, tag.as_ref()].concat().into())
    }

    /// Opens a sealed secret; `None` if it was changed, moved, or sealed under another key.
    pub(crate) fn open(&self, place: &[u8], sealed: &Sealed) -> Option<Vec<u8>> {
        let (nonce, body) = sealed.0.split_first_chunk::<NONCE_LEN>()?;
        let mut body = body.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let length = self
            .0
            .open_in_place(nonce, Aad::from(place), &mut body)
            .ok()?
            .len();
        // The tag is behind the plaintext.
        body.truncate(length);
        Some(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use playgate_ports::SeededEntropy;

    #[test]
    fn secret_opens_only_in_its_place_and_under_its_key() {
        let secret = [7; 16];
        let entropy = SeededEntropy::new(1);
        let sealer = Sealer::new(&[3; 32]);
        let sealed = sealer.seal(b"here", &secret, &entropy);
        assert_eq!(sealer.open(b"here", &sealed).unwrap(), secret);
        assert!(sealer.open(b"there", &sealed).is_none());
        assert!(Sealer::new(&[4; 32]).open(b"here", &sealed).is_none());
        assert!(!sealed.0.windows(4).any(|bytes| bytes == [7; 4]));
        // Sealing twice gives different bytes.
        assert!(sealer.seal(b"here", &secret, &entropy) != sealed);
        for at in 0..sealed.0.len() {
            let mut damaged = sealed.clone();
            damaged.0[at] ^= 1;
            assert!(sealer.open(b"here", &damaged).is_none());
        }
        for length in 0..sealed.0.len() {
            let short = Sealed(sealed.0[..length].into());
            assert!(sealer.open(b"here", &short).is_none());
        }
    }
}
