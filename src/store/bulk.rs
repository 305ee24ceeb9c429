//! Bulk writes. They reach the engine in large batches and leave room in the memtable for other commits.

use crate::handle::Store;

/// While this guard exists, commits reach the engine in large batches.
pub struct BulkWrites(Store);

impl Drop for BulkWrites {
    fn drop(&mut self) {
        self.0.0.core.memtable.end_bulk();
    }
}

impl Store {
    pub fn bulk_writes(&self) -> BulkWrites {
        self.0.core.memtable.begin_bulk();
        BulkWrites(self.clone())
    }

    /// Blocks until the memtable has room. Bulk writers call this so that other commits do not have to wait for the
    /// engine.
    pub fn pace(&self) {
        let is_ready = || self.0.core.engine().is_ready();
        self.0.core.memtable.pace(is_ready);
    }
}
