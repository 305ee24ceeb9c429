//! The ordered key-value engine under the tables: its trait, and what stands behind it.
//!
//! The engine is never trusted alone. It holds what the log was replayed into, remembers how far
//! that was and what the trees must add up to, and is made anew from base and log when it fails.

mod checksum;
mod memory;
mod sled_engine;
mod supervised;

pub(super) use checksum::Digest;
pub(super) use memory::MemoryEngine;
#[cfg(test)]
pub(super) use sled_engine::tamper;
pub(super) use sled_engine::{SledEngine, leftovers};
pub(super) use supervised::{Guarded, panic_message};

use super::StoreError;
use super::table::TreeName;
use super::write_batch::WriteBatch;

/// A key and its value.
pub(super) type Pair = (Vec<u8>, Vec<u8>);

/// What a scan yields.
pub(super) type Scan<'a> = Box<dyn Iterator<Item = Result<Pair, StoreError>> + 'a>;

/// An ordered key-value engine with named trees.
pub(super) trait Engine: Send + Sync {
    /// The value under a key.
    fn get(&self, tree: TreeName, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// The pairs of a tree within `from..to`, in order; not a snapshot.
    fn scan<'a>(&'a self, tree: TreeName, from: &[u8], to: Option<&[u8]>) -> Scan<'a>;

    /// Applies a plan and its number, whole or not at all.
    fn apply(&self, number: u64, plan: &WriteBatch) -> Result<(), StoreError>;

    /// The number of the last plan that was applied.
    fn applied(&self) -> Result<u64, StoreError>;

    /// Makes everything applied so far survive a power cut.
    fn sync(&self) -> Result<(), StoreError>;

    /// Whether plans are applied at once. Until then [`Engine::apply`] blocks; reads do not.
    fn is_ready(&self) -> bool {
        true
    }

    /// Blocks until plans are applied at once.
    fn wait_until_ready(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// The store is closing: an engine that is not ready need not become so, and [`Engine::apply`]
    /// fails with [`StoreError::Closed`] where it would block.
    fn abandon(&self) {}
}
