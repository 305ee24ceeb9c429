//! Tables, indexes and the list of them.

use super::key::Key;
use super::record::{self, Record};
use crate::error::StoreError;

pub type TreeName = &'static str;

/// A typed table: a zero-sized type that connects a name with a key type, a record type and index entries.
pub trait Table: Send + Sync + Sized + 'static {
    /// Name of the tree; must not change after a release.
    const NAME: TreeName;
    type Key: Key;
    type Record: Record;

    const INDEXES: &'static [TreeName] = &[];

    /// Computes the index entries of one record: a pure function, and the only source of entries.
    /// Implementations destructure the record without `..`, so that a new field is a compile error.
    fn index(_key: &Self::Key, _record: &Self::Record, _entries: &mut Entries) {}
}

/// A secondary index: maps index keys to primary keys of its table.
pub trait Index: 'static {
    const NAME: TreeName;
    type Table: Table;
    type Key: Key;
}

pub type PrimaryKey<I> = <<I as Index>::Table as Table>::Key;

#[derive(Default)]
pub struct Entries(Vec<IndexEntry>);

/// A tree and the key in it: the index key followed by the primary key.
pub(super) type IndexEntry = (TreeName, Vec<u8>);

impl Entries {
    pub fn add<I: Index>(&mut self, key: &I::Key, primary: &PrimaryKey<I>) {
        // The primary key makes the entry unique and names its record.
        let mut bytes = key.to_bytes();
        primary.write(&mut bytes);
        self.0.push((I::NAME, bytes));
    }
}

pub(super) fn entries<T: Table>(key: &T::Key, record: &T::Record) -> Vec<IndexEntry> {
    let mut entries = Entries::default();
    T::index(key, record, &mut entries);
    // Callers compare the entries of the old and the new record as sets.
    entries.0.sort_unstable();
    entries.0.dedup();
    entries.0
}

/// A table without its type parameters, for verification and replay.
#[derive(Clone, Copy)]
pub(super) struct TableInfo {
    pub(super) name: TreeName,
    pub(super) indexes: &'static [TreeName],
    /// Returns the index entries of a stored value; `None` if key or value is damaged. Fails for a
    /// record of a newer version.
    pub(super) examine: fn(&[u8], &[u8]) -> Result<Option<Vec<IndexEntry>>, StoreError>,
}

fn examine<T: Table>(key: &[u8], value: &[u8]) -> Result<Option<Vec<IndexEntry>>, StoreError> {
    let record = match record::open::<T::Record>(T::NAME, key, value) {
        Err(StoreError::Damaged { .. }) => return Ok(None),
        other => other?,
    };
    let key = T::Key::from_bytes(key);
    Ok(key.map(|key| entries::<T>(&key, &record)))
}

/// The tables of a store.
#[derive(Clone, Default)]
pub struct Tables {
    tables: Vec<TableInfo>,
    /// Number of upgrade steps that lead to these tables.
    upgrades: u32,
}

impl Tables {
    pub(super) fn add<T: Table>(&mut self) {
        self.tables.push(TableInfo {
            name: T::NAME,
            indexes: T::INDEXES,
            examine: examine::<T>,
        });
    }

    /// One format later than before.
    pub(super) fn next_format(&mut self) {
        self.upgrades = self.upgrades.saturating_add(1);
    }

    /// Returns the format of these tables: 1, plus the number of upgrade steps.
    pub const fn format(&self) -> u32 {
        self.upgrades.saturating_add(1)
    }

    /// Returns how many tables a store has. A version never has fewer than an earlier one of its format.
    pub fn count(&self) -> u32 {
        u32::try_from(self.tables.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn tables(&self) -> &[TableInfo] {
        &self.tables
    }

    pub(super) fn table(&self, name: &[u8]) -> Option<&TableInfo> {
        self.tables
            .iter()
            .find(|table| table.name.as_bytes() == name)
    }

    pub(super) fn trees(&self) -> impl Iterator<Item = TreeName> {
        self.tables
            .iter()
            .flat_map(|table| std::iter::once(table.name).chain(table.indexes.iter().copied()))
    }

    pub(super) fn tree(&self, name: &[u8]) -> Option<TreeName> {
        self.trees().find(|tree| tree.as_bytes() == name)
    }
}
