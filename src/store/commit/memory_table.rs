//! Memory tables: replicas of tables in memory for hot requests, which must not read the engine.
//!
//! A listener is filled from its table at start-up and updated by each commit before the commit is
//! answered. Both use [`CommitListener::apply`].

use std::hash::Hash;
use std::sync::Arc;

use dashmap::DashMap;
use foldhash::quality::RandomState;

use crate::error::StoreError;
use crate::key::Key as _;
use crate::record;
use crate::table::{Table, TreeName};
use crate::table_copies::TableCopy;
use crate::write_batch::RawChange;

pub struct Changed<T: Table> {
    pub key: T::Key,
    pub record: Option<T::Record>,
}

pub trait CommitListener<T: Table>: Send + Sync + 'static {
    /// Applies the changes of one commit to the table, or at start-up a batch of its records. Runs
    /// on the writer thread, so it must be quick and must not call the store.
    fn apply(&self, changes: Vec<Changed<T>>);
}

/// A [`CommitListener`] without its type parameters.
pub(crate) trait TableListener: Send + Sync + 'static {
    /// Fails for a record of a newer version. A damaged one is reported and skipped.
    fn apply(&self, changes: &mut dyn Iterator<Item = RawChange<'_>>) -> Result<(), StoreError>;
}

pub(crate) struct Decoding<T: Table>(pub(crate) Arc<dyn CommitListener<T>>);

impl<T: Table> TableListener for Decoding<T> {
    fn apply(&self, changes: &mut dyn Iterator<Item = RawChange<'_>>) -> Result<(), StoreError> {
        let mut decoded = Vec::new();
        for (raw_key, value) in changes {
            let record = value.map(|value| record::open::<T::Record>(T::NAME, raw_key, value));
            match (T::Key::from_bytes(raw_key), record.transpose()) {
                (Some(key), Ok(record)) => decoded.push(Changed { key, record }),
                // One damaged record must not prevent the start; the others stay readable.
                (None, Ok(_)) | (_, Err(StoreError::Damaged { .. })) => {
                    report_damage(T::NAME, raw_key);
                }
                (_, Err(error)) => return Err(error),
            }
        }
        self.0.apply(decoded);
        Ok(())
    }
}

pub(crate) fn report_damage(table: TreeName, key: &[u8]) {
    // This can happen only at start-up: the records of a commit were encoded just before.
    tracing::error!(
        table,
        key = %data_encoding::HEXLOWER.encode(key),
        "damaged record left out; `playgate store verify` lists all"
    );
}

/// The default listener: a sharded hash map of the whole table.
pub struct MemoryTable<T: Table>
where
    T::Key: Hash,
{
    /// foldhash has a random seed too, and takes fewer instructions than the hash of the standard library.
    records: DashMap<T::Key, Arc<T::Record>, RandomState>,
}

impl<T: Table> Default for MemoryTable<T>
where
    T::Key: Hash,
{
    fn default() -> Self {
        Self {
            records: DashMap::default(),
        }
    }
}

impl<T: Table> MemoryTable<T>
where
    T::Key: Hash,
{
    pub fn get(&self, key: &T::Key) -> Option<Arc<T::Record>> {
        self.records.get(key).map(|record| Arc::clone(&record))
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Calls `each` with every record, in no particular order. Not a consistent snapshot.
    pub fn for_each(&self, mut each: impl FnMut(&T::Key, &Arc<T::Record>)) {
        for pair in &self.records {
            each(pair.key(), pair.value());
        }
    }
}

impl<T: Table> TableCopy<T> for MemoryTable<T>
where
    T::Key: Hash,
    T::Record: Clone,
{
    fn find_record(&self, key: &T::Key) -> Option<T::Record> {
        let record = self.records.get(key)?;
        Some(T::Record::clone(&record))
    }
}

impl<T: Table> CommitListener<T> for MemoryTable<T>
where
    T::Key: Hash,
{
    fn apply(&self, changes: Vec<Changed<T>>) {
        for Changed { key, record } in changes {
            match record {
                Some(record) => {
                    self.records.insert(key, Arc::new(record));
                }
                None => {
                    self.records.remove(&key);
                }
            }
        }
    }
}
