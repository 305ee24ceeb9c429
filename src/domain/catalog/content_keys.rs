//! Content keys at rest: sealed under the appliance's master key, opened for a license alone.

use serde::{Deserialize, Serialize};

use super::model::{ContentKey, KeyId};
use super::tables;
use crate::domain::sealing::{Sealed, Sealer};
use crate::ports::Entropy;
use crate::store::{Durability, Store, StoreError};

/// A content key as it is stored.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SealedKey(Sealed);

/// What seals and opens content keys.
pub struct ContentKeySealer(Sealer);

impl ContentKeySealer {
    /// A vault under a master key.
    #[must_use]
    pub fn new(master: &[u8; 32]) -> Self {
        Self(Sealer::new(master))
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

/// How many content keys a store holds if none of them opens under a master key, or there is none:
/// that master key is gone. One key that does not open among others that do is a damaged record.
///
/// # Errors
/// That the store failed.
pub fn sealed_otherwise(
    store: &Store,
    master: Option<&[u8; 32]>,
) -> Result<Option<usize>, StoreError> {
    let sealed = store.read(tables::sealed_keys)?;
    let vault = master.map(ContentKeySealer::new);
    let opens = |(id, key): &(KeyId, SealedKey)| {
        let vault = vault.as_ref();
        vault.is_some_and(|vault| vault.open(id, key).is_some())
    };
    let lost = !sealed.is_empty() && !sealed.iter().any(opens);
    Ok(lost.then_some(sealed.len()))
}

/// Removes the content keys that do not open under a master key; returns how many.
///
/// # Errors
/// That the store failed.
pub fn drop_keys(store: &Store, master: Option<&[u8; 32]>) -> Result<usize, StoreError> {
    let vault = master.map(ContentKeySealer::new);
    let plan = store.write(Durability::Durable, move |txn| {
        let mut dropped = 0;
        for (id, key) in tables::sealed_keys(txn)? {
            let vault = vault.as_ref();
            if vault.is_none_or(|vault| vault.open(&id, &key).is_none()) {
                tables::drop_key(txn, &id)?;
                dropped += 1;
            }
        }
        Ok::<_, StoreError>(dropped)
    });
    plan.wait()
}
