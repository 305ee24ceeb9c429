//! A wrapper that ends a long replay into an engine when the store closes.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{Engine, Scan};
use crate::store::StoreError;
use crate::store::snapshot::history::CommitId;
use crate::store::table::TreeName;
use crate::store::write_batch::BatchPart;

pub(in crate::store) struct AbandonableEngine<'a> {
    pub(in crate::store) engine: &'a dyn Engine,
    pub(in crate::store) abandoned: &'a AtomicBool,
}

impl Engine for AbandonableEngine<'_> {
    fn get(&self, tree: TreeName, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.engine.get(tree, key)
    }

    fn scan<'a>(&'a self, tree: TreeName, from: &[u8], to: Option<&[u8]>) -> Scan<'a> {
        self.engine.scan(tree, from, to)
    }

    fn apply_part(&self, commit: CommitId, part: &BatchPart<'_>) -> Result<(), StoreError> {
        // The next start repeats the batch that was begun.
        if self.abandoned.load(Ordering::Relaxed) {
            return Err(StoreError::Closed);
        }
        self.engine.apply_part(commit, part)
    }

    fn applied(&self) -> Result<CommitId, StoreError> {
        self.engine.applied()
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.engine.sync()
    }
}
