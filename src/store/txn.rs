//! The transaction of the writer: typed reads and changes over a buffer.

use super::StoreError;
use super::engine::Engine;
use super::key::{Key, PrefixOf, after_prefix};
use super::memtable::Memtable;
use super::record;
use super::table::{self, Index, PrimaryKey, Table, TreeName};
use super::write_batch::{Change, WriteBatch};

/// One transaction: it sees the engine, the tail, the earlier plans of its group and its own changes.
///
/// Nothing is changed until the plan is committed; a plan that returns an error leaves nothing.
pub struct Txn<'a> {
    pub(super) engine: &'a dyn Engine,
    pub(super) tail: &'a Memtable,
    pub(super) group: &'a WriteBatch,
    pub(super) plan: WriteBatch,
}

impl Txn<'_> {
    /// The record under a key.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if it is, or that the engine failed.
    pub fn get<T: Table>(&self, key: &T::Key) -> Result<Option<T::Record>, StoreError> {
        self.lookup::<T>(&key.to_bytes())
    }

    fn lookup<T: Table>(&self, key: &[u8]) -> Result<Option<T::Record>, StoreError> {
        let value = self.raw(T::NAME, key)?;
        value.map(|value| open::<T>(key, &value)).transpose()
    }

    /// What lies under a key of a table or an index.
    pub(super) fn raw(&self, tree: TreeName, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let pending = self.pending(tree, key).cloned();
        match pending.or_else(|| self.tail.get(tree, key)) {
            Some(change) => Ok(change),
            None => self.engine.get(tree, key),
        }
    }

    /// Up to `limit` records whose keys begin with `prefix`, in key order.
    ///
    /// # Errors
    /// As [`Txn::get`].
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

    /// Up to `limit` records in key order, from the key `from` or the first one on. A damaged record
    /// comes as `None`, so that it does not hide those behind it.
    ///
    /// # Errors
    /// That the engine failed, or that a key is damaged.
    pub fn scan_from<T: Table>(
        &self,
        from: Option<&T::Key>,
        limit: usize,
    ) -> Result<Vec<(T::Key, Option<T::Record>)>, StoreError> {
        let from = from.map(Key::to_bytes).unwrap_or_default();
        self.pairs(T::NAME, &from, None, limit)?
            .into_iter()
            .map(|(key, value)| Ok((read_key::<T>(&key)?, open::<T>(&key, &value).ok())))
            .collect()
    }

    /// Up to `limit` index keys that begin with `prefix`, with the primary keys they lead to.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn scan_index<I: Index>(
        &self,
        prefix: &impl PrefixOf<I::Key>,
        limit: usize,
    ) -> Result<Vec<(I::Key, PrimaryKey<I>)>, StoreError> {
        let from = prefix.prefix_bytes();
        self.entries::<I>(&from, after_prefix(&from).as_deref(), limit)
    }

    /// The first primary key under an index key.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn find<I: Index>(&self, key: &I::Key) -> Result<Option<PrimaryKey<I>>, StoreError> {
        let from = key.to_bytes();
        let to = after_prefix(&from);
        self.pairs(I::NAME, &from, to.as_deref(), 1)?
            .first()
            .map(|(entry, _)| split_entry::<I>(entry).map(|(_, primary)| primary))
            .transpose()
    }

    /// Up to `limit` index entries from the index key `from` up to, not including, `to`.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn range_index<I: Index>(
        &self,
        from: &impl PrefixOf<I::Key>,
        to: &impl PrefixOf<I::Key>,
        limit: usize,
    ) -> Result<Vec<(I::Key, PrimaryKey<I>)>, StoreError> {
        self.entries::<I>(&from.prefix_bytes(), Some(&to.prefix_bytes()), limit)
    }

    /// Calls `each` with every key of an index that was committed before this call, in no order; also
    /// with some that were changed since, and more than once with some. It holds few of them at a time.
    ///
    /// # Errors
    /// As [`Txn::get`].
    pub fn for_each_key<I: Index>(&self, each: &mut dyn FnMut(I::Key)) -> Result<(), StoreError> {
        // Before the engine is read: what it takes over meanwhile is seen twice, never not at all.
        let tail = self.tail.range(I::NAME, &[], None);
        for pair in self.engine.scan(I::NAME, &[], None) {
            each(split_entry::<I>(&pair?.0)?.0);
        }
        for (entry, _) in tail.iter().filter(|(_, change)| change.is_some()) {
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

    /// Writes a record, and the difference that it makes to its table's indexes.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`], or that the engine failed.
    pub fn put<T: Table>(&mut self, key: &T::Key, record: &T::Record) -> Result<(), StoreError> {
        let bytes = key.to_bytes();
        let value = record::seal(T::NAME, &bytes, record)?;
        self.reindex::<T>(key, &bytes, &table::entries::<T>(key, record))?;
        self.plan.set(T::NAME, bytes, Some(value));
        Ok(())
    }

    /// As [`Txn::put`], under a key that has no record, such as an id that was drawn at random a moment
    /// ago: what was there is not looked up.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`].
    pub fn insert<T: Table>(&mut self, key: &T::Key, record: &T::Record) -> Result<(), StoreError> {
        let bytes = key.to_bytes();
        let value = record::seal(T::NAME, &bytes, record)?;
        for (tree, entry) in table::entries::<T>(key, record) {
            self.plan.set(tree, entry, Some(Vec::new()));
        }
        self.plan.set(T::NAME, bytes, Some(value));
        Ok(())
    }

    /// Deletes a record and its index entries; nothing happens if there is none.
    ///
    /// # Errors
    /// That the engine failed.
    pub fn delete<T: Table>(&mut self, key: &T::Key) -> Result<(), StoreError> {
        let bytes = key.to_bytes();
        self.reindex::<T>(key, &bytes, &[])?;
        self.plan.set(T::NAME, bytes, None);
        Ok(())
    }

    fn reindex<T: Table>(
        &mut self,
        key: &T::Key,
        bytes: &[u8],
        new: &[table::Entry],
    ) -> Result<(), StoreError> {
        if T::INDEXES.is_empty() {
            return Ok(());
        }
        let old = match self.lookup::<T>(bytes) {
            Ok(Some(record)) => table::entries::<T>(key, &record),
            // What a damaged record had in the indexes is not known; a rebuild finds what is left of
            // it. Refusing would keep the damage for good.
            Ok(None) | Err(StoreError::Damaged { .. }) => Vec::new(),
            Err(error) => return Err(error),
        };
        for (tree, entry) in old.iter().filter(|entry| !new.contains(entry)) {
            self.plan.set(tree, entry.clone(), None);
        }
        for (tree, entry) in new.iter().filter(|entry| !old.contains(entry)) {
            self.plan.set(tree, entry.clone(), Some(Vec::new()));
        }
        Ok(())
    }

    fn pending(&self, tree: TreeName, key: &[u8]) -> Option<&Change> {
        self.plan
            .get(tree, key)
            .or_else(|| self.group.get(tree, key))
    }

    /// The engine's pairs under the tail's changes under the group's under this plan's.
    pub(super) fn pairs(
        &self,
        tree: TreeName,
        from: &[u8],
        to: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Vec<u8>, Vec<u8>)>, StoreError> {
        // Before the engine is read: what it takes over meanwhile is seen twice, never not at all.
        let tail = self.tail.range(tree, from, to);
        let mut pending = tail.iter().collect::<std::collections::BTreeMap<_, _>>();
        pending.extend(self.group.range(tree, from, to));
        pending.extend(self.plan.range(tree, from, to));
        let mut pending = pending.into_iter().peekable();
        let mut stored = self.engine.scan(tree, from, to).peekable();
        let mut pairs = Vec::new();
        while pairs.len() < limit {
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
                // A change hides what is stored under its key.
                stored.next_if(|pair| matches!(pair, Ok((stored, _)) if stored == key));
                pairs.extend(change.as_ref().map(|value| (key.clone(), value.clone())));
            }
        }
        Ok(pairs)
    }
}

/// The record of a stored value of `T`.
pub(super) fn open<T: Table>(key: &[u8], value: &[u8]) -> Result<T::Record, StoreError> {
    record::open(T::NAME, key, value).ok_or_else(|| StoreError::damaged_record(T::NAME, key))
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
