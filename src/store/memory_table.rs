//! Memory tables: what hot requests read instead of the engine.
//!
//! A mirror is filled from its table at start and changed by each commit, before the commit is
//! answered. Both ways end in the same [`CommitListener::apply`], so memory is the sum of the changes.

use std::hash::Hash;
use std::sync::Arc;

use dashmap::DashMap;

use super::key::Key as _;
use super::packed::PackedTable;
use super::record;
use super::table::{Table, TreeName};
use super::{Store, StoreError};

/// One changed record of a table; `None` if it was deleted.
pub struct Changed<T: Table> {
    /// Its primary key.
    pub key: T::Key,
    /// The record as it is now.
    pub record: Option<T::Record>,
}

/// Something in memory that follows a table.
pub trait CommitListener<T: Table>: Send + Sync + 'static {
    /// Takes over all changes of one commit to the table, or at start a batch of its records. Runs
    /// on the writer thread: it must be quick and must not call the store.
    fn apply(&self, changes: Vec<Changed<T>>);
}

/// One change as it is stored: the key, and the value unless it was deleted.
pub(super) type RawChange<'a> = (&'a [u8], Option<&'a [u8]>);

/// A mirror without its types, as the writer holds it.
pub(super) trait Listener: Send + Sync + 'static {
    /// As [`CommitListener::apply`].
    fn apply(&self, changes: &mut dyn Iterator<Item = RawChange<'_>>);
}

/// Decodes changes for a mirror.
pub(super) struct Decoding<T: Table>(pub(super) Arc<dyn CommitListener<T>>);

impl<T: Table> Listener for Decoding<T> {
    fn apply(&self, changes: &mut dyn Iterator<Item = RawChange<'_>>) {
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
                        report_damage(T::NAME, key);
                        None
                    }
                }
            })
            .collect();
        self.0.apply(decoded);
    }
}

/// Logs a record that cannot be read. That happens at start only: what is being committed has just
/// been encoded.
pub(super) fn report_damage(table: TreeName, key: &[u8]) {
    tracing::error!(
        table,
        key = %data_encoding::HEXLOWER.encode(key),
        "damaged record left out; `playgate store verify` lists all"
    );
}

impl Store {
    /// Fills a mirror from its table and keeps it up to date from then on.
    ///
    /// # Errors
    /// That the engine failed. Damaged records are logged and left out.
    pub fn attach<T: Table>(&self, mirror: Arc<dyn CommitListener<T>>) -> Result<(), StoreError> {
        self.listen(T::NAME, Arc::new(Decoding(mirror)))
    }

    /// As [`Store::attach`], for a table whose records are kept encoded.
    ///
    /// # Errors
    /// As [`Store::attach`].
    pub fn attach_packed<T: Table, V>(
        &self,
        table: Arc<PackedTable<T, V>>,
    ) -> Result<(), StoreError>
    where
        T::Key: Hash,
        V: Send + Sync + 'static,
    {
        self.listen(T::NAME, table)
    }

    fn listen(&self, tree: TreeName, listener: Arc<dyn Listener>) -> Result<(), StoreError> {
        /// Records that are decoded at a time.
        const BATCH: usize = 4_096;
        self.run_exclusive(move |writer| {
            // Before the engine is read: what it is given meanwhile is seen twice, never not at all.
            let tail = writer.core.tail.range(tree, &[], None);
            let engine = writer.core.engine();
            let mut scan = engine.scan(tree, &[], None);
            loop {
                let batch = scan.by_ref().take(BATCH).collect::<Result<Vec<_>, _>>()?;
                listener.apply(
                    &mut batch
                        .iter()
                        .map(|(key, value)| (key.as_slice(), Some(value.as_slice()))),
                );
                if batch.len() < BATCH {
                    break;
                }
            }
            drop(scan);
            let tail = tail.iter();
            listener.apply(&mut tail.map(|(key, change)| (key.as_slice(), change.as_deref())));
            writer.mirrors.entry(tree).or_default().push(listener);
            Ok(())
        })
    }
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
