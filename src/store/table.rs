//! What a table is, what an index is, and the list of all of them.

use super::key::Key;
use super::record::{self, Record};
use super::{Store, StoreError};

/// The name of a tree of the engine: that of a table or of an index.
pub type TreeName = &'static str;

/// A typed table: a zero-sized type that ties a name to a key, a record and its index entries.
pub trait Table: Send + Sync + Sized + 'static {
    /// The name of its tree; never changed once released.
    const NAME: TreeName;
    /// The primary key.
    type Key: Key;
    /// What lies under it.
    type Record: Record;

    /// The names of the indexes that [`Table::index`] fills.
    const INDEXES: &'static [TreeName] = &[];

    /// The index entries of one record: a pure function, and the only place that makes entries.
    /// Implementations take the record apart without `..`, so that a new field makes one think.
    fn index(_key: &Self::Key, _record: &Self::Record, _entries: &mut Entries) {}
}

/// A hand-written index: index keys that lead to primary keys of its table.
pub trait Index: 'static {
    /// The name of its tree.
    const NAME: TreeName;
    /// The table that it leads to.
    type Table: Table;
    /// What it is ordered by.
    type Key: Key;
}

/// The primary key of an index's table.
pub type PrimaryKey<I> = <<I as Index>::Table as Table>::Key;

/// The index entries of one record, collected.
#[derive(Default)]
pub struct Entries(Vec<Entry>);

/// One entry: the tree it lies in and its key there, the index key followed by the primary key.
pub(super) type Entry = (TreeName, Vec<u8>);

impl Entries {
    /// Adds an entry of the index `I`.
    pub fn add<I: Index>(&mut self, key: &I::Key, primary: &PrimaryKey<I>) {
        let mut bytes = key.to_bytes();
        primary.write(&mut bytes);
        self.0.push((I::NAME, bytes));
    }
}

/// The entries of a record, sorted, without repeats.
pub(super) fn entries<T: Table>(key: &T::Key, record: &T::Record) -> Vec<Entry> {
    let mut entries = Entries::default();
    T::index(key, record, &mut entries);
    entries.0.sort_unstable();
    entries.0.dedup();
    entries.0
}

/// A table without its types, as verification and replay see it.
#[derive(Clone, Copy)]
pub(super) struct TableInfo {
    pub(super) name: TreeName,
    pub(super) indexes: &'static [TreeName],
    /// The index entries of a stored value, or nothing if key or value is damaged.
    pub(super) examine: fn(&[u8], &[u8]) -> Option<Vec<Entry>>,
}

fn examine<T: Table>(key: &[u8], value: &[u8]) -> Option<Vec<Entry>> {
    let record = record::open::<T::Record>(T::NAME, key, value)?;
    Some(entries::<T>(&T::Key::from_bytes(key)?, &record))
}

/// One step from the format before it to its own. It runs once or more, whole or in part: what it
/// finds done it leaves alone.
pub type Step = fn(&Store) -> Result<(), StoreError>;

/// Every table of a store, and how stores of older formats come to have them.
#[derive(Clone, Default)]
pub struct Schema {
    tables: Vec<TableInfo>,
    steps: Vec<Step>,
}

impl Schema {
    /// Adds a table.
    #[must_use]
    pub fn with<T: Table>(mut self) -> Self {
        self.tables.push(TableInfo {
            name: T::NAME,
            indexes: T::INDEXES,
            examine: examine::<T>,
        });
        self
    }

    /// Adds the step to the next format.
    #[must_use]
    pub fn upgraded_by(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// The format that stores of these tables have: the first one is 1, and each step makes the next.
    #[must_use]
    pub fn format(&self) -> u32 {
        u32::try_from(self.steps.len())
            .unwrap_or(u32::MAX)
            .saturating_add(1)
    }

    /// The steps that lead on from a format, each with the format that it leads to.
    pub(super) fn steps_from(&self, format: u32) -> impl Iterator<Item = (u32, Step)> {
        let steps = (2..).zip(self.steps.iter().copied());
        steps.filter(move |(to, _)| *to > format)
    }

    pub(super) fn tables(&self) -> &[TableInfo] {
        &self.tables
    }

    /// The table of a name that was read from disk.
    pub(super) fn table(&self, name: &[u8]) -> Option<&TableInfo> {
        self.tables
            .iter()
            .find(|table| table.name.as_bytes() == name)
    }

    /// All trees: the tables and their indexes.
    pub(super) fn trees(&self) -> impl Iterator<Item = TreeName> {
        self.tables
            .iter()
            .flat_map(|table| std::iter::once(table.name).chain(table.indexes.iter().copied()))
    }

    /// The tree of a name that was read from disk.
    pub(super) fn tree(&self, name: &[u8]) -> Option<TreeName> {
        self.trees().find(|tree| tree.as_bytes() == name)
    }
}
