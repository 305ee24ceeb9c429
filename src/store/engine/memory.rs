//! An engine in memory: for tests, which must not depend on sled, and for a start on a disk that is
//! not writable.

use std::collections::BTreeMap;
use std::ops::Bound;

use parking_lot::RwLock;

use super::{Engine, KeyValue, Scan};
use crate::error::StoreError;
use crate::history::CommitId;
use crate::table::TreeName;
use crate::write_batch::BatchPart;

#[derive(Default)]
pub(crate) struct MemoryEngine(RwLock<MemoryEngineState>);

#[derive(Default)]
struct MemoryEngineState {
    trees: BTreeMap<TreeName, BTreeMap<Vec<u8>, Vec<u8>>>,
    applied: CommitId,
}

impl Engine for MemoryEngine {
    fn is_on_disk(&self) -> bool {
        false
    }

    fn get(&self, tree: TreeName, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let state = self.0.read();
        Ok(state
            .trees
            .get(tree)
            .and_then(|tree| tree.get(key))
            .cloned())
    }

    fn scan<'a>(&'a self, tree: TreeName, from: &[u8], to: Option<&[u8]>) -> Scan<'a> {
        let state = self.0.read();
        let Some(tree) = state.trees.get(tree) else {
            return Box::new(std::iter::empty());
        };
        // Copied, because the lock cannot be held while the caller iterates.
        let pairs: Vec<KeyValue> = tree
            // No upper bound here: `range` panics if it is reversed.
            .range::<[u8], _>((Bound::Included(from), Bound::Unbounded))
            .take_while(|(key, _)| to.is_none_or(|to| key.as_slice() < to))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        Box::new(pairs.into_iter().map(Ok))
    }

    fn apply_part(&self, commit: CommitId, part: &BatchPart<'_>) -> Result<(), StoreError> {
        let mut state = self.0.write();
        for (name, key, change) in &part.changes {
            let tree = state.trees.entry(name).or_default();
            match change {
                Some(value) => tree.insert(key.to_vec(), value.to_vec()),
                None => tree.remove(*key),
            };
        }
        if part.is_last {
            state.applied = commit;
        }
        Ok(())
    }

    fn applied(&self) -> Result<CommitId, StoreError> {
        Ok(self.0.read().applied)
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
