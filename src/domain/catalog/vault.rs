//! Content keys at rest: sealed under the appliance's master key, opened for a license alone.

use serde::{Deserialize, Serialize};

use super::model::{ContentKey, KeyId};
use crate::domain::vault::{Sealed, Vault};
use crate::ports::Entropy;

/// A content key as it is stored.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SealedKey(Sealed);

/// What seals and opens content keys.
pub struct KeyVault(Vault);

impl KeyVault {
    /// A vault under a master key.
    #[must_use]
    pub fn new(master: &[u8; 32]) -> Self {
        Self(Vault::new(master))
    }

    /// Seals a key under its id, so that it opens under no other one.
    #[must_use]
    pub fn seal(&self, id: &KeyId, key: &ContentKey, entropy: &dyn Entropy) -> SealedKey {
        SealedKey(self.0.seal(id.as_bytes(), key.reveal(), entropy))
    }

    /// Opens a sealed key; nothing if it was changed, moved, or sealed under another master key.
    #[must_use]
    pub fn open(&self, id: &KeyId, sealed: &SealedKey) -> Option<ContentKey> {
        let key = self.0.open(id.as_bytes(), &sealed.0)?;
        key.try_into().ok().map(ContentKey::from_bytes)
    }
}
