//! In-memory filter of all used addresses, for the duration of a large import.
//!
//! Checking in the engine that an address is free reads a leaf that is not in memory and waits for pending
//! commits. An import of a million users would do that a million times on the writer thread. Instead it first
//! collects a hash of every address; only hits are checked in the engine.

use std::hash::{BuildHasher as _, RandomState};

use hashbrown::HashTable;
use parking_lot::Mutex;

use super::tables::UsersByEmail;
use super::{Accounts, AccountsError};
use playgate_store::{Durability, Key as _};
use playgate_types::{Email, PartnerId};

type Address = (PartnerId, Email);

/// Empty unless an import is running.
#[derive(Default)]
pub(super) struct KnownAddresses {
    state: Mutex<AddressState>,
    hasher: RandomState,
}

#[derive(Default)]
struct AddressState {
    imports: usize,
    complete: bool,
    hashes: HashTable<u32>,
}

impl KnownAddresses {
    /// Returns `false` only if the address is certainly unused. Only the writer thread may call this, because it sees
    /// every new user.
    pub(super) fn may_contain(&self, address: &Address) -> bool {
        let state = self.state.lock();
        if !state.complete {
            return true;
        }
        let hash = self.hash(address);
        state
            .hashes
            .find(spread_bits(hash), |found| *found == hash)
            .is_some()
    }

    /// Called before the write batch commits. If the batch fails, the stale hash costs only an engine lookup.
    pub(super) fn add(&self, address: &Address) {
        let mut state = self.state.lock();
        // Nothing reads the filter unless an import is running, so it stays empty.
        if state.imports > 0 {
            let hash = self.hash(address);
            if state
                .hashes
                .find(spread_bits(hash), |found| *found == hash)
                .is_none()
            {
                state
                    .hashes
                    .insert_unique(spread_bits(hash), hash, |hash| spread_bits(*hash));
            }
        }
    }

    fn hash(&self, address: &Address) -> u32 {
        // Four bytes suffice: a false hit costs one engine lookup.
        let [a, b, c, d, ..] = self.hasher.hash_one(address.to_bytes()).to_le_bytes();
        u32::from_le_bytes([a, b, c, d])
    }
}

const fn spread_bits(hash: u32) -> u64 {
    // `HashTable` uses the highest and the lowest bits, so both halves need the hash.
    ((hash as u64) << 32) | hash as u64
}

/// Keeps the filter filled until it is dropped.
pub struct AddressFilterGuard(Accounts);

impl Drop for AddressFilterGuard {
    fn drop(&mut self) {
        let mut state = self.0.0.addresses.state.lock();
        // Imports may overlap, so they are counted.
        state.imports = state.imports.saturating_sub(1);
        // The last import frees the memory.
        if state.imports == 0 {
            *state = AddressState::default();
        }
    }
}

impl Accounts {
    /// Fills the filter. Blocking: it takes some seconds per million users.
    pub fn collect_addresses(&self) -> Result<AddressFilterGuard, AccountsError> {
        let known = &self.0.addresses;
        known.state.lock().imports += 1;
        let held = AddressFilterGuard(self.clone());
        // From here on every write batch adds its address itself. Earlier batches are visible to readers once
        // this empty batch is answered.
        let before = self
            .0
            .store
            .write::<_, AccountsError, _>(Durability::Logged, |_| Ok(()));
        before.wait()?;
        self.0
            .store
            .read(|txn| txn.for_each_key::<UsersByEmail>(&mut |address| known.add(&address)))?;
        // Until here, `may_contain` answers yes for every address.
        known.state.lock().complete = true;
        Ok(held)
    }
}
