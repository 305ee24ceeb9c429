//! Memory tables: what hot requests read instead of the engine.
//!
//! A mirror is filled from its table at start and changed by each commit, before the commit is
//! answered. Both ways end in the same [`Mirror::apply`], so memory is the sum of the changes.

use std::hash::Hash;
use std::sync::Arc;

use dashmap::DashMap;

use super::key::Key as _;
use super::record;
use super::table::Table;

/// One changed record of a table; `None` if it was deleted.
pub struct Changed<T: Table> {
    /// Its primary key.
    pub key: T::Key,
    /// The record as it is now.
    pub record: Option<T::Record>,
}

/// Something in memory that follows a table.
pub trait Mirror<T: Table>: Send + Sync + 'static {
    /// Takes over all changes of one commit to the table, or at start a batch of its records. Runs
    /// on the writer thread: it must be quick and must not call the store.
    fn apply(&self, changes: Vec<Changed<T>>);
}

/// A mirror without its types, as the writer holds it.
pub(super) type Publish = Box<dyn Fn(&mut dyn Iterator<Item = (&[u8], Option<&[u8]>)>) + Send>;

pub(super) fn publish<T: Table>(mirror: Arc<dyn Mirror<T>>) -> Publish {
    Box::new(move |changes| {
        let decoded = changes
            .filter_map(|(key, value)| {
                let record = value.map(|value| record::open::<T::Record>(T::NAME, key, value));
                match (T::Key::from_bytes(key), record) {
                    (Some(key), None) => Some(Changed { key, record: None }),
                    (Some(key), Some(Some(record))) => Some(Changed {
                        key,
                        record: Some(record),
                    }),
                    _ => {
                        // Only at start: what is being committed has just been encoded.
                        tracing::error!(
                            table = T::NAME,
                            key = %data_encoding::HEXLOWER.encode(key),
                            "damaged record left out; `playgate store verify` lists all"
                        );
                        None
                    }
                }
            })
            .collect();
        mirror.apply(decoded);
    })
}

/// The usual mirror: a sharded hash map of a whole table.
pub struct MemoryTable<T: Table>
where
    T::Key: Hash,
{
    records: DashMap<T::Key, Arc<T::Record>>,
}

impl<T: Table> Default for MemoryTable<T>
where
    T::Key: Hash,
{
    fn default() -> Self {
        Self {
            records: DashMap::new(),
        }
    }
}

impl<T: Table> MemoryTable<T>
where
    T::Key: Hash,
{
    /// The record under a key.
    #[must_use]
    pub fn get(&self, key: &T::Key) -> Option<Arc<T::Record>> {
        self.records.get(key).map(|record| Arc::clone(&record))
    }

    /// The number of records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Calls `each` with every record, in no order; not a snapshot.
    pub fn for_each(&self, mut each: impl FnMut(&T::Key, &Arc<T::Record>)) {
        for pair in &self.records {
            each(pair.key(), pair.value());
        }
    }
}

impl<T: Table> Mirror<T> for MemoryTable<T>
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
