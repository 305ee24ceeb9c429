//! The ordered key-value engine under the tables: its trait and implementations.
//!
//! The engine is never the only copy. It contains the replayed commits, remembers the last one and
//! the checksums of its trees, and is rebuilt from snapshot and WAL if it fails.

mod checksum;
mod memory;
mod sled_engine;
mod supervised;

pub(super) use checksum::Digest;
pub(super) use memory::MemoryEngine;
#[cfg(test)]
pub(super) use sled_engine::tamper;
pub(super) use sled_engine::{SledEngine, leftovers};
pub(super) use supervised::{WatchedEngine, panic_message};

use super::table::TreeName;
use super::write_batch::{BatchPart, WriteBatch};
use crate::error::StoreError;
use crate::history::CommitId;
use crate::write_batch::RawChange;

pub(super) type KeyValue = (Vec<u8>, Vec<u8>);

pub(super) type Scan<'a> = Box<dyn Iterator<Item = Result<KeyValue, StoreError>> + 'a>;

pub(super) trait Engine: Send + Sync {
    fn get(&self, tree: TreeName, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Iterates the pairs of a tree within `from..to`, in order. Not a consistent snapshot.
    fn scan<'a>(&'a self, tree: TreeName, from: &[u8], to: Option<&[u8]>) -> Scan<'a>;

    /// Calls `each` with batches of changes that lead to the present pairs of a tree if they are
    /// applied in this order. Faster than [`Engine::scan`] for whole trees.
    fn replay_tree(
        &self,
        tree: TreeName,
        each: &mut dyn FnMut(&mut dyn Iterator<Item = RawChange<'_>>),
    ) -> Result<(), StoreError> {
        const BATCH: usize = 4_096;
        let mut scan = self.scan(tree, &[], None);
        loop {
            let batch = scan.by_ref().take(BATCH).collect::<Result<Vec<_>, _>>()?;
            let pairs = batch.iter();
            each(&mut pairs.map(|(key, value)| (key.as_slice(), Some(value.as_slice()))));
            if batch.len() < BATCH {
                return Ok(());
            }
        }
    }

    /// Applies a write batch and its commit id. A crash can leave only some parts of a large batch in the engine, without
    /// the commit id. [`Engine::begun`] then returns the id, and applying the commits again completes the engine.
    fn apply(&self, commit: CommitId, batch: &WriteBatch) -> Result<(), StoreError> {
        batch
            .parts()
            .try_for_each(|part| self.apply_part(commit, &part))
    }

    /// Applies a part atomically. The last part also sets the commit id.
    fn apply_part(&self, commit: CommitId, part: &BatchPart<'_>) -> Result<(), StoreError>;

    fn applied(&self) -> Result<CommitId, StoreError>;

    /// Returns the last commit of a batch that was applied only in part.
    fn begun(&self) -> Option<CommitId> {
        None
    }

    /// Makes everything applied so far survive a power cut; applied changes are not durable before.
    fn sync(&self) -> Result<(), StoreError>;

    /// Returns whether the engine has files. It locks them, so that no second engine of this process can open them.
    fn is_on_disk(&self) -> bool {
        true
    }

    /// Until the engine is ready, [`Engine::apply`] blocks; reads do not.
    fn is_ready(&self) -> bool {
        true
    }

    fn wait_until_ready(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Called when the store closes. An engine that is not ready may stop its preparation, and
    /// [`Engine::apply`] fails with [`StoreError::Closed`] instead of blocking.
    fn abandon(&self) {}
}
