//! Content keys that no longer open because the master key was lost: finds and removes them.

use super::content_keys::{ContentKeySealer, SealedKey};
use super::model::KeyId;
use super::tables;
use playgate_store::{Durability, Store, StoreError};

/// Detects a lost master key: returns the number of stored keys if there are any and none of them opens.
pub fn keys_of_another_master(
    store: &Store,
    master: Option<&[u8; 32]>,
) -> Result<Option<usize>, StoreError> {
    let sealed = store.read(tables::sealed_keys)?;
    let sealer = master.map(ContentKeySealer::new);
    let opens = |(id, key): &(KeyId, SealedKey)| {
        let sealer = sealer.as_ref();
        sealer.is_some_and(|sealer| sealer.open(id, key).is_some())
    };
    // If only some fail to open, their records are damaged and the master key is right.
    let lost = !sealed.is_empty() && !sealed.iter().any(opens);
    Ok(lost.then_some(sealed.len()))
}

/// Removes the content keys that do not open under the master key; returns their number.
pub fn drop_keys(store: &Store, master: Option<&[u8; 32]>) -> Result<usize, StoreError> {
    let sealer = master.map(ContentKeySealer::new);
    let commit = store.write(Durability::Durable, move |txn| {
        let mut dropped = 0;
        for (id, key) in tables::sealed_keys(txn)? {
            let sealer = sealer.as_ref();
            // Without a master key no key can ever be opened, so all are removed.
            if sealer.is_none_or(|sealer| sealer.open(&id, &key).is_none()) {
                tables::drop_key(txn, &id)?;
                dropped += 1;
            }
        }
        Ok::<_, StoreError>(dropped)
    });
    commit.wait()
}
