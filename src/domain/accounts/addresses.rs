//! Which addresses have no user for sure, while a large import runs.
//!
//! A look for an address that is free costs the engine a leaf that is not in memory, and waits for what
//! is being applied. An import of a million users does that a million times on the writer thread. It
//! therefore collects a hash of every address first, and asks the engine only about those that are there.

use std::hash::{BuildHasher as _, RandomState};

use hashbrown::HashTable;
use parking_lot::Mutex;

use super::tables::UsersByEmail;
use super::{Accounts, AccountsError};
use crate::store::{Durability, Key as _};
use crate::types::{Email, PartnerId};

/// A partner and an address within it.
type Address = (PartnerId, Email);

/// Hashes of the addresses of all users; empty unless an import asked for them.
#[derive(Default)]
pub(super) struct KnownAddresses {
    state: Mutex<State>,
    hasher: RandomState,
}

#[derive(Default)]
struct State {
    /// The imports that use it.
    imports: usize,
    /// Whether every address is in it.
    complete: bool,
    hashes: HashTable<u32>,
}

impl KnownAddresses {
    /// Whether an address may have a user: `false` is certain. For the writer thread, which sees every
    /// new user.
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

    /// Notes the address of a new user, before its plan can be committed. That the plan may fail costs
    /// one look into the engine.
    pub(super) fn add(&self, address: &Address) {
        let mut state = self.state.lock();
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

/// The table uses the highest and the lowest bits.
const fn spread(hash: u32) -> u64 {
    ((hash as u64) << 32) | hash as u64
}

/// While one is held, free addresses are known without the engine.
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
    /// Collects the addresses of all users, which takes some seconds for a million; blocking.
    ///
    /// # Errors
    /// That the store failed.
    pub fn know_addresses(&self) -> Result<AddressesKnown, AccountsError> {
        let known = &self.0.addresses;
        known.state.lock().imports += 1;
        let held = AddressesKnown(self.clone());
        // From here on every plan adds its address itself. One that ran before may be neither in the
        // engine nor in its tail yet; it is once this one is answered.
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
