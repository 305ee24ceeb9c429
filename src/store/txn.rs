//! Transactions on the writer thread: typed reads, and changes collected in a write batch.

use super::key::{Key, PrefixOf, after_prefix};
use super::record;
use super::shared::Shared;
use super::table::{self, Index, PrimaryKey, Table, TreeName};
use super::write_batch::{NewValue, WriteBatch};
use crate::error::StoreError;

/// Publishes a state in memory with a commit.
pub(crate) type Publication = Box<dyn FnOnce() + Send>;

/// A transaction. Its reads see its own changes, then those of earlier transactions of its group, then the last commit: from
/// the memory table if there is one, otherwise from the memtable and the engine. No change takes effect before the commit;
/// an error discards all of them.
pub struct Txn<'a> {
    pub(super) shared: &'a Shared,
    pub(super) group: &'a WriteBatch,
    pub(super) batch: WriteBatch,
    pub(super) publications: Vec<Publication>,
}

impl Txn<'_> {
    pub fn get<T: Table>(&self, key: &T::Key) -> Result<Option<T::Record>, StoreError> {
        self.lookup::<T>(key, &key.to_bytes())
    }

    fn lookup<T: Table>(
        &self,
        key: &T::Key,
        bytes: &[u8],
    ) -> Result<Option<T::Record>, StoreError> {
        if let Some(change) = self.pending(T::NAME, bytes) {
            let value = change.as_deref();
            return value.map(|value| open::<T>(bytes, value)).transpose();
        }
        if let Some(record) = self.shared.copies.find_record::<T>(key) {
            return Ok(Some(record));
        }
        let value = self.committed(T::NAME, bytes)?;
        value.map(|value| open::<T>(bytes, &value)).transpose()
    }

    pub(super) fn raw(&self, tree: TreeName, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        match self.pending(tree, key) {
            Some(change) => Ok(change.clone()),
            None => self.committed(tree, key),
        }
    }

    fn committed(&self, tree: TreeName, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        match self.shared.memtable.get(tree, key) {
            Some(change) => Ok(change),
            // The engine is fetched after the memtable was read: a switch to a new engine clears the memtable, and the
            // old engine lacks what the memtable held.
            None => self.shared.engine().get(tree, key),
        }
    }

    pub fn scan<T: Table>(
        &self,
        prefix: &impl PrefixOf<T::Key>,
        limit: usize,
    ) -> Result<Vec<(T::Key, T::Record)>, StoreError> {
        let from = prefix.prefix_bytes();
        let to = after_prefix(&from);
        self.pairs(T::NAME, &from, to.as_deref(), limit)?
            .into_iter()
            .map(|(key, value)| Ok((read_key::<T>(&key)?, open::<T>(&key, &value)?)))
            .collect()
    }

    /// Returns up to `limit` records in key order, beginning at `from` or at the first key. A damaged record is
    /// `None`, so that the records after it stay reachable.
    pub fn scan_from<T: Table>(
        &self,
        from: Option<&T::Key>,
        limit: usize,
    ) -> Result<Vec<(T::Key, Option<T::Record>)>, StoreError> {
        let from = from.map(Key::to_bytes).unwrap_or_default();
        self.pairs(T::NAME, &from, None, limit)?
            .into_iter()
            .map(|(key, value)| {
                let record = match open::<T>(&key, &value) {
                    Err(StoreError::Damaged { .. }) => None,
                    other => Some(other?),
                };
                Ok((read_key::<T>(&key)?, record))
            })
            .collect()
    }

    pub fn scan_index<I: Index>(
        &self,
        prefix: &impl PrefixOf<I::Key>,
        limit: usize,
    ) -> Result<Vec<(I::Key, PrimaryKey<I>)>, StoreError> {
        let from = prefix.prefix_bytes();
        // Keys that begin with the prefix form one range, since the encoding sorts as the keys do.
        self.entries::<I>(&from, after_prefix(&from).as_deref(), limit)
    }

    pub fn find<I: Index>(&self, key: &I::Key) -> Result<Option<PrimaryKey<I>>, StoreError> {
        let from = key.to_bytes();
        // An index key is followed by the primary key, so its entries are a range.
        let to = after_prefix(&from);
        self.pairs(I::NAME, &from, to.as_deref(), 1)?
            .first()
            .map(|(entry, _)| split_entry::<I>(entry).map(|(_, primary)| primary))
            .transpose()
    }

    pub fn range_index<I: Index>(
        &self,
        from: &impl PrefixOf<I::Key>,
        to: &impl PrefixOf<I::Key>,
        limit: usize,
    ) -> Result<Vec<(I::Key, PrimaryKey<I>)>, StoreError> {
        self.entries::<I>(&from.prefix_bytes(), Some(&to.prefix_bytes()), limit)
    }

    /// Calls `each` for every key of an index that was committed before this call, in no particular order. It may
    /// also pass later changes, and some keys more than once. Memory use is bounded.
    pub fn for_each_key<I: Index>(&self, each: &mut dyn FnMut(I::Key)) -> Result<(), StoreError> {
        // The memtable is read before the engine is fetched: a commit that is applied in between, or that a new engine
        // has, is then seen twice and never missed.
        let waiting = self.shared.memtable.range(I::NAME, &[], None);
        let engine = self.shared.engine();
        for pair in engine.scan(I::NAME, &[], None) {
            each(split_entry::<I>(&pair?.0)?.0);
        }
        // A deletion in the memtable cannot withdraw a key that the scan has already passed to `each`.
        for (entry, _) in waiting.iter().filter(|(_, change)| change.is_some()) {
            each(split_entry::<I>(entry)?.0);
        }
        Ok(())
    }

    fn entries<I: Index>(
        &self,
        from: &[u8],
        to: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(I::Key, PrimaryKey<I>)>, StoreError> {
        self.pairs(I::NAME, from, to, limit)?
            .into_iter()
            .map(|(entry, _)| split_entry::<I>(&entry))
            .collect()
    }

    pub fn put<T: Table>(&mut self, key: &T::Key, record: &T::Record) -> Result<(), StoreError> {
        let bytes = key.to_bytes();
        let value = record::seal(T::NAME, &bytes, record)?;
        // The indexes are updated first: the old record determines the old entries and must still be readable.
        self.reindex::<T>(key, &bytes, &table::entries::<T>(key, record))?;
        self.batch.set(T::NAME, bytes, Some(value));
        Ok(())
    }

    /// Like [`Txn::put`] for a key that has no record, such as a new random id. Skips the look-up of
    /// the old record, and the engine never sees a record that is deleted again soon. An existing record would leave stale
    /// index entries, and could reappear after such a deletion.
    pub fn insert<T: Table>(&mut self, key: &T::Key, record: &T::Record) -> Result<(), StoreError> {
        let bytes = key.to_bytes();
        let value = record::seal(T::NAME, &bytes, record)?;
        for (tree, entry) in table::entries::<T>(key, record) {
            self.batch.insert(tree, entry, Vec::new());
        }
        self.batch.insert(T::NAME, bytes, value);
        Ok(())
    }

    pub fn delete<T: Table>(&mut self, key: &T::Key) -> Result<(), StoreError> {
        let bytes = key.to_bytes();
        self.reindex::<T>(key, &bytes, &[])?;
        self.batch.set(T::NAME, bytes, None);
        Ok(())
    }

    fn reindex<T: Table>(
        &mut self,
        key: &T::Key,
        bytes: &[u8],
        new: &[table::IndexEntry],
    ) -> Result<(), StoreError> {
        if T::INDEXES.is_empty() {
            return Ok(());
        }
        let old = match self.lookup::<T>(key, bytes) {
            Ok(Some(record)) => table::entries::<T>(key, &record),
            // The old index entries of a damaged record are unknown; a rebuild removes them. An
            // error here would make the damage permanent.
            Ok(None) | Err(StoreError::Damaged { .. }) => Vec::new(),
            Err(error) => return Err(error),
        };
        // An entry that stays is not written again, which keeps the WAL small.
        for (tree, entry) in old.iter().filter(|entry| !new.contains(entry)) {
            self.batch.set(tree, entry.clone(), None);
        }
        for (tree, entry) in new.iter().filter(|entry| !old.contains(entry)) {
            self.batch.set(tree, entry.clone(), Some(Vec::new()));
        }
        Ok(())
    }

    /// Whether the record exists after the changes of this transaction and its group; `None` if they do not change it.
    pub fn exists_in_pending<T: Table>(&self, key: &T::Key) -> Option<bool> {
        let change = self.pending(T::NAME, &key.to_bytes())?;
        Some(change.is_some())
    }

    /// Returns the changes of this transaction and its group to the records with a prefix: the new record, or `None` if it is
    /// deleted. Memory tables have all commits before.
    pub fn pending_records<T: Table>(
        &self,
        prefix: &impl PrefixOf<T::Key>,
    ) -> Result<Vec<(T::Key, Option<T::Record>)>, StoreError> {
        let from = prefix.prefix_bytes();
        let to = after_prefix(&from);
        let range = |batch: &'_ WriteBatch| -> Result<Vec<_>, StoreError> {
            let changes = batch.range(T::NAME, &from, to.as_deref());
            let records = changes.map(|(key, value)| {
                let record = value.as_ref().map(|value| open::<T>(key, value));
                Ok((read_key::<T>(key)?, record.transpose()?))
            });
            records.collect()
        };
        let mut changes = range(self.group)?;
        // Of two changes of a key, the later one is behind the other.
        changes.extend(range(&self.batch)?);
        Ok(changes)
    }

    fn pending(&self, tree: TreeName, key: &[u8]) -> Option<&NewValue> {
        self.batch
            .get(tree, key)
            .or_else(|| self.group.get(tree, key))
    }

    pub(super) fn pairs(
        &self,
        tree: TreeName,
        from: &[u8],
        to: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Vec<u8>, Vec<u8>)>, StoreError> {
        // The memtable is read before the engine is fetched: a commit that is applied in between, or that a new engine
        // has, is then seen twice and never missed.
        let waiting = self.shared.memtable.range(tree, from, to);
        let engine = self.shared.engine();
        let mut pending = waiting.iter().collect::<std::collections::BTreeMap<_, _>>();
        // Later layers override earlier ones: memtable, group, this transaction.
        pending.extend(self.group.range(tree, from, to));
        pending.extend(self.batch.range(tree, from, to));
        let mut pending = pending.into_iter().peekable();
        let mut stored = engine.scan(tree, from, to).peekable();
        let mut pairs = Vec::new();
        while pairs.len() < limit {
            // At equal keys the pending change comes first, since it replaces the stored value.
            let stored_first = match (stored.peek(), pending.peek()) {
                (None, None) => break,
                (Some(Ok((key, _))), Some((changed, _))) => key < *changed,
                (Some(_), _) => true,
                (None, Some(_)) => false,
            };
            if stored_first {
                pairs.extend(stored.next().transpose()?);
                continue;
            }
            if let Some((key, change)) = pending.next() {
                // A change replaces the stored value of its key.
                stored.next_if(|pair| matches!(pair, Ok((stored, _)) if stored == key));
                pairs.extend(change.as_ref().map(|value| (key.clone(), value.clone())));
            }
        }
        Ok(pairs)
    }
}

pub(super) fn open<T: Table>(key: &[u8], value: &[u8]) -> Result<T::Record, StoreError> {
    record::open(T::NAME, key, value)
}

pub(super) fn read_key<T: Table>(key: &[u8]) -> Result<T::Key, StoreError> {
    T::Key::from_bytes(key).ok_or_else(|| StoreError::damaged_record(T::NAME, key))
}

pub(super) fn split_entry<I: Index>(entry: &[u8]) -> Result<(I::Key, PrimaryKey<I>), StoreError> {
    let mut rest = entry;
    I::Key::read(&mut rest)
        .and_then(|key| Some((key, PrimaryKey::<I>::from_bytes(rest)?)))
        .ok_or_else(|| StoreError::damaged_record(I::NAME, entry))
}
