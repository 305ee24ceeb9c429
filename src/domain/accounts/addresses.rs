//! How an import finds out that an address is free, without reading the engine on the writer thread.
//!
//! A read of the engine waits while a part of a batch is applied. An import that did one for each user on the writer thread
//! delayed every other commit by seconds. So an import checks each address while it reads the line. Before the first check
//! the writer thread begins to record the hash of every address that is assigned. Only these addresses can have been taken
//! since the check.
//!
//! A large import also collects the hashes of all addresses in use, since a read for each line would take longer.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use hashbrown::HashTable;
use parking_lot::Mutex;

use super::tables::UsersByEmail;
use super::{Accounts, AccountsError};
use playgate_store::{Durability, Key as _};
use playgate_types::{Email, PartnerId};

type Address = (PartnerId, Email);

/// Empty unless an import is running.
#[derive(Default)]
pub(super) struct WatchedAddresses {
    state: Mutex<AddressState>,
    hasher: RandomState,
}

#[derive(Default)]
struct AddressState {
    watches: usize,
    /// Whether `hashes` has all addresses and not only those assigned since the first watch.
    is_complete: bool,
    hashes: HashTable<u32>,
}

impl AddressState {
    fn has(&self, hash: u32) -> bool {
        self.hashes
            .find(spread_bits(hash), |found| *found == hash)
            .is_some()
    }
}

impl WatchedAddresses {
    /// Returns `false` only if no user had the address at some time during this call.
    fn may_be_taken(&self, address: &Address) -> bool {
        let state = self.state.lock();
        !state.is_complete || state.has(self.hash(address))
    }

    /// Returns `false` only if the address was not assigned since the first watch began. Only the writer thread may call
    /// this: it assigns addresses.
    pub(super) fn may_be_newly_taken(&self, address: &Address) -> bool {
        self.state.lock().has(self.hash(address))
    }

    /// Called on the writer thread before the write batch commits. If the batch fails, the stale hash costs only an engine
    /// lookup.
    pub(super) fn add(&self, address: &Address) {
        let mut state = self.state.lock();
        // Nothing reads the hashes unless an import is running, so they stay empty.
        if state.watches > 0 {
            let hash = self.hash(address);
            if !state.has(hash) {
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

/// While it exists, the addresses that are assigned are noted.
pub struct AddressWatch(Accounts);

impl Drop for AddressWatch {
    fn drop(&mut self) {
        let mut state = self.0.0.addresses.state.lock();
        // Imports may overlap, so they are counted.
        state.watches = state.watches.saturating_sub(1);
        // The last import frees the memory.
        if state.watches == 0 {
            *state = AddressState::default();
        }
    }
}

impl AddressWatch {
    /// Whether the hashes of all addresses in use are collected, by this import or a concurrent one.
    pub fn has_all_addresses(&self) -> bool {
        self.0.0.addresses.state.lock().is_complete
    }

    /// Collects all addresses in use. Blocking: it takes some seconds per million users.
    pub fn collect(&self) -> Result<(), AccountsError> {
        let known = &self.0.0.addresses;
        self.0
            .0
            .store
            .read(|txn| txn.for_each_key::<UsersByEmail>(&mut |address| known.add(&address)))?;
        known.state.lock().is_complete = true;
        Ok(())
    }
}

impl Accounts {
    /// Blocking: it waits for a commit.
    pub fn watch_addresses(&self) -> Result<Arc<AddressWatch>, AccountsError> {
        self.0.addresses.state.lock().watches += 1;
        let watch = Arc::new(AddressWatch(self.clone()));
        // From here on every write batch notes its addresses. Earlier batches are visible to readers once this empty batch
        // is answered.
        let before = self
            .0
            .store
            .write::<_, AccountsError, _>(Durability::Logged, |_| Ok(()));
        before.wait()?;
        Ok(watch)
    }

    /// Returns whether a user has the address. May read from disk.
    pub fn is_taken(&self, partner: PartnerId, email: &Email) -> Result<bool, AccountsError> {
        let may_be = self.0.addresses.may_be_taken(&(partner, email.clone()));
        Ok(may_be && self.find(partner, email)?.is_some())
    }
}
