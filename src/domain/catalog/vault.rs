//! Content keys at rest: sealed under the appliance's master key, opened for a license alone.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde::{Deserialize, Serialize};

use super::model::{ContentKey, KeyId};
use crate::ports::Entropy;

/// A content key as it is stored: nonce, ciphertext, tag.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SealedKey(Box<[u8]>);

/// What seals and opens content keys.
pub struct KeyVault(LessSafeKey);

impl KeyVault {
    /// A vault under a master key, which lies in a file of its own beside the store: a copy of the
    /// store alone gives no key away.
    #[must_use]
    pub fn new(master: &[u8; 32]) -> Self {
        #[expect(
            clippy::expect_used,
            reason = "32 bytes are the length of this cipher's keys"
        )]
        let key = UnboundKey::new(&AES_256_GCM, master).expect("a key of 32 bytes");
        Self(LessSafeKey::new(key))
    }

    /// Seals a key under its id, so that it opens under no other one. Nonces are random: at 96 bits
    /// a catalogue of millions of keys has no two alike.
    #[must_use]
    pub fn seal(&self, id: &KeyId, key: &ContentKey, entropy: &dyn Entropy) -> SealedKey {
        let mut nonce = [0; NONCE_LEN];
        entropy.fill(&mut nonce);
        let mut body = key.reveal().to_vec();
        #[expect(
            clippy::expect_used,
            reason = "it fails for bodies of over 64 GiB only"
        )]
        let tag = self
            .0
            .seal_in_place_separate_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(id.as_bytes()),
                &mut body,
            )
            .expect("a body of 16 bytes");
        SealedKey([&nonce[..], &body, tag.as_ref()].concat().into())
    }

    /// Opens a sealed key; nothing if it was changed, moved, or sealed under another master key.
    #[must_use]
    pub fn open(&self, id: &KeyId, sealed: &SealedKey) -> Option<ContentKey> {
        let (nonce, body) = sealed.0.split_first_chunk::<NONCE_LEN>()?;
        let mut body = body.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let key = self
            .0
            .open_in_place(nonce, Aad::from(id.as_bytes()), &mut body)
            .ok()?;
        let key: &[u8] = key;
        key.try_into().ok().map(ContentKey::from_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::entropy::SeededEntropy;

    #[test]
    fn a_key_opens_under_its_own_id_and_master_key_alone() {
        let (id, other) = (KeyId::from_bytes([1; 16]), KeyId::from_bytes([2; 16]));
        let key = ContentKey::from_bytes([7; 16]);
        let entropy = SeededEntropy::new(1);
        let vault = KeyVault::new(&[3; 32]);
        let sealed = vault.seal(&id, &key, &entropy);
        assert!(vault.open(&id, &sealed) == Some(key.clone()));
        assert!(vault.open(&other, &sealed).is_none());
        assert!(KeyVault::new(&[4; 32]).open(&id, &sealed).is_none());
        assert!(!sealed.0.windows(4).any(|bytes| bytes == [7; 4]));
        // Sealed again it looks different.
        assert!(vault.seal(&id, &key, &entropy) != sealed);
        for at in 0..sealed.0.len() {
            let mut damaged = sealed.clone();
            damaged.0[at] ^= 1;
            assert!(vault.open(&id, &damaged).is_none());
        }
    }
}
