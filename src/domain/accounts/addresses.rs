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
use crate::store::{Durability, Key as _};
use crate::types::{Email, PartnerId};

type Address = (PartnerId, Email);

/// Hashes of all users' addresses; empty unless an import is running.
#[derive(Default)]
pub(super) struct KnownAddresses {
    state: Mutex<State>,
    hasher: RandomState,
}

#[derive(Default)]
struct State {
    /// Number of imports that use it.
    imports: usize,
    /// Whether it contains every address.
    complete: bool,
    hashes: HashTable<u32>,
}

impl KnownAddresses {
    /// Whether an address may have a user; `false` is certain. Only for the writer thread, which sees every new
    /// user.
    pub(super) fn may_hold(&self, address: &Address) -> bool {
        let state = self.state.lock();
        if !state.complete {
            return true;
        }
        let hash = self.hash(address);
        state
            .hashes
            .find(spread(hash), |found| *found == hash)
            .is_some()
    }

    /// Adds the address of a new user before the write batch commits. If the batch fails, the stale hash costs
    /// only an engine lookup.
    pub(super) fn add(&self, address: &Address) {
        let mut state = self.state.lock();
        // Nothing reads the filter unless an import is running, so it stays empty.
        if state.imports > 0 {
            let hash = self.hash(address);
            if state
                .hashes
                .find(spread(hash), |found| *found == hash)
                .is_none()
            {
                state
                    .hashes
                    .insert_unique(spread(hash), hash, |hash| spread(*hash));
            }
        }
    }

    fn hash(&self, address: &Address) -> u32 {
        let [a, b, c, d, ..] = self.hasher.hash_one(address.to_bytes()).to_le_bytes();
        u32::from_le_bytes([a, b, c, d])
    }
}

// `HashTable` uses the highest and the lowest bits, so both halves need the hash.
const fn spread(hash: u32) -> u64 {
    ((hash as u64) << 32) | hash as u64
}

/// Keeps the filter filled while it is held.
pub struct AddressesKnown(Accounts);

impl Drop for AddressesKnown {
    fn drop(&mut self) {
        let mut state = self.0.0.addresses.state.lock();
        state.imports = state.imports.saturating_sub(1);
        if state.imports == 0 {
            *state = State::default();
        }
    }
}

impl Accounts {
    /// Fills the filter with the addresses of all users; takes some seconds per million. Blocking.
    pub fn know_addresses(&self) -> Result<AddressesKnown, AccountsError> {
        let known = &self.0.addresses;
        known.state.lock().imports += 1;
        let held = AddressesKnown(self.clone());
        // From here on every write batch adds its address itself. An earlier batch may not be visible to
        // readers yet; it is once this empty batch is answered.
        let before = self
            .0
            .store
            .write::<_, AccountsError, _>(Durability::Logged, |_| Ok(()));
        before.wait()?;
        self.0
            .store
            .read(|txn| txn.for_each_key::<UsersByEmail>(&mut |address| known.add(&address)))?;
        known.state.lock().complete = true;
        Ok(held)
    }
}
