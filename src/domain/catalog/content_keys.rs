//! Stored content keys: sealed under the master key, opened only for a license.

use serde::{Deserialize, Serialize};

use super::model::{ContentKey, KeyId};
use crate::sealing::{Sealed, Sealer};
use playgate_ports::Entropy;

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SealedKey(Sealed);

pub struct ContentKeySealer(Sealer);

impl ContentKeySealer {
    pub fn new(master: &[u8; 32]) -> Self {
        Self(Sealer::new(master))
    }

    /// Seals a key. It opens under no other id.
    pub fn seal(&self, id: &KeyId, key: &ContentKey, entropy: &dyn Entropy) -> SealedKey {
        SealedKey(self.0.seal(id.as_bytes(), key.reveal(), entropy))
    }

    pub fn open(&self, id: &KeyId, sealed: &SealedKey) -> Option<ContentKey> {
        // A key that was changed, moved to another id, or sealed under another master key does not open.
        let key = self.0.open(id.as_bytes(), &sealed.0)?;
        key.try_into().ok().map(ContentKey::from_bytes)
    }
}
