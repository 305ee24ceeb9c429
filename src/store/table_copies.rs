//! The memory tables that transactions read records from.
//!
//! A read of the engine waits while a part of a batch is applied. Every commit would be delayed if the writer thread waited.

use std::any::Any;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::table::{Table, TreeName};

/// A memory table that has all records. A commit changes it before the memtable, so it is never behind.
pub(crate) trait TableCopy<T: Table>: Send + Sync + 'static {
    fn find_record(&self, key: &T::Key) -> Option<T::Record>;
}

/// For each table that has a copy, an `Arc<dyn TableCopy<T>>`.
#[derive(Default)]
pub(crate) struct TableCopies(RwLock<Vec<(TreeName, Box<dyn Any + Send + Sync>)>>);

impl TableCopies {
    pub(crate) fn register<T: Table>(&self, copy: Arc<dyn TableCopy<T>>) {
        self.0.write().push((T::NAME, Box::new(copy)));
    }

    /// Returns the record as of the last commit. After `None` the record may still exist: the table may have no copy, and a
    /// copy leaves damaged records out.
    pub(crate) fn find_record<T: Table>(&self, key: &T::Key) -> Option<T::Record> {
        let copies = self.0.read();
        let (_, copy) = copies.iter().find(|(tree, _)| *tree == T::NAME)?;
        copy.downcast_ref::<Arc<dyn TableCopy<T>>>()?
            .find_record(key)
    }
}
