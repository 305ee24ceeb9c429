//! Tables that are in memory as a whole, for the reads of transactions.
//!
//! The engine lets a reader wait while it applies a part of a batch. The writer thread must not wait for that: every commit
//! would wait with it.

use std::any::Any;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::table::{Table, TreeName};

/// A table in memory. It has each commit before the memtable has it.
pub(crate) trait TableCopy<T: Table>: Send + Sync + 'static {
    fn record(&self, key: &T::Key) -> Option<T::Record>;
}

/// For each table that has a copy, an `Arc<dyn TableCopy<T>>`.
#[derive(Default)]
pub(crate) struct TableCopies(RwLock<Vec<(TreeName, Box<dyn Any + Send + Sync>)>>);

impl TableCopies {
    pub(crate) fn add<T: Table>(&self, copy: Arc<dyn TableCopy<T>>) {
        self.0.write().push((T::NAME, Box::new(copy)));
    }

    /// Returns the record as of the last commit. `None` says nothing: the table may have no copy, and a copy has no damaged
    /// records.
    pub(crate) fn record<T: Table>(&self, key: &T::Key) -> Option<T::Record> {
        let copies = self.0.read();
        let (_, copy) = copies.iter().find(|(tree, _)| *tree == T::NAME)?;
        copy.downcast_ref::<Arc<dyn TableCopy<T>>>()?.record(key)
    }
}
