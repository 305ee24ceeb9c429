//! The health of what is stored: records, indexes, engine and log compared, indexes made again.
//!
//! It knows tables by name only.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::store::{
    self, DurableStateReport, Exported, Salvaged, SnapshotExport, Store, StoreError, TableReport,
    Verified,
};
pub use crate::store::{NEEDS, WritePriority, Written};

/// How the engine compares with base and log, which it was made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurableStateHealth {
    /// The commit that the base was made after; none if the log has everything.
    pub base: Option<u64>,
    /// The last commit.
    pub number: u64,
    /// Pairs that base and log have and the engine has not, or has otherwise.
    pub missing: u64,
    /// Pairs that the engine alone has.
    pub extra: u64,
    /// Why base and log could not be read to their end.
    pub damage: Option<String>,
    /// Some of the places where something is wrong, as `tree:key` in hexadecimal.
    pub places: Vec<String>,
    /// What the engine was rebuilt from when the store was opened, if it was.
    pub rebuilt_from: Option<String>,
}

impl From<DurableStateReport> for DurableStateHealth {
    fn from(report: DurableStateReport) -> Self {
        let DurableStateReport {
            base,
            number,
            missing,
            extra,
            damage,
            rebuilt_from,
        } = report;
        Self {
            base,
            number,
            missing: missing.count,
            extra: extra.count,
            damage,
            places: [missing.some, extra.some].concat(),
            rebuilt_from,
        }
    }
}

/// What was found in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Each table with its indexes.
    pub tables: Vec<TableHealth>,
    /// The engine against base and log; none where it was not compared.
    pub truth: Option<DurableStateHealth>,
}

impl Health {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.tables.iter().all(TableHealth::is_sound)
            && self.truth.as_ref().is_none_or(|truth| {
                truth.missing == 0 && truth.extra == 0 && truth.damage.is_none()
            })
    }
}

/// What was found in one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableHealth {
    /// The table.
    pub table: &'static str,
    /// The records that were read.
    pub records: u64,
    /// Records that are damaged.
    pub damaged: u64,
    /// Index entries that a record should have and has not.
    pub missing: u64,
    /// Index entries that no record has.
    pub stale: u64,
    /// Some of the places where something is wrong, as `tree:key` in hexadecimal.
    pub places: Vec<String>,
}

impl TableHealth {
    /// Whether nothing is wrong.
    #[must_use]
    pub const fn is_sound(&self) -> bool {
        self.damaged == 0 && self.missing == 0 && self.stale == 0
    }
}

impl From<TableReport> for TableHealth {
    fn from(report: TableReport) -> Self {
        let TableReport {
            table,
            records,
            damaged,
            missing,
            stale,
        } = report;
        Self {
            table,
            records,
            damaged: damaged.count,
            missing: missing.count,
            stale: stale.count,
            places: [damaged.some, missing.some, stale.some].concat(),
        }
    }
}

/// Looks after the store. Its verbs block for as long as the store is large.
#[derive(Clone)]
pub struct StoreAdmin(Store);

impl StoreAdmin {
    /// The upkeep of a store.
    #[must_use]
    pub const fn new(store: Store) -> Self {
        Self(store)
    }

    /// Whether changes are taken; not while the disk is full or read-only.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.0.is_writable()
    }

    /// What is refused since the disk runs full, and all that comes after it.
    #[must_use]
    pub fn refuses(&self) -> Option<WritePriority> {
        self.0.refuses()
    }

    /// What was committed since the start.
    #[must_use]
    pub fn written(&self) -> Written {
        self.0.written()
    }

    /// Bytes that are free on the disk; none of a store in memory.
    #[must_use]
    pub fn free_bytes(&self) -> Option<u64> {
        Some(self.0.space()?.0)
    }

    /// The file of a new base: everything that was committed so far, to be read by who is near.
    ///
    /// # Errors
    /// That there is no space, or that something is damaged.
    pub fn base_file(&self) -> Result<PathBuf, StoreError> {
        self.0.base_file()
    }

    /// Makes the engine anew while the service goes on; says how many bytes it took before and after.
    ///
    /// # Errors
    /// As [`StoreAdmin::base_file`].
    pub fn compact(&self) -> Result<(u64, u64), StoreError> {
        self.0.compact()
    }

    /// Compares records and indexes, both ways, and the engine with base and log, while commits go on.
    ///
    /// # Errors
    /// That the store failed.
    pub fn verify(&self) -> Result<Health, StoreError> {
        let Verified { tables, truth } = self.0.verify()?;
        Ok(Health {
            tables: tables.into_iter().map(TableHealth::from).collect(),
            truth: truth.map(DurableStateHealth::from),
        })
    }

    /// Makes the indexes right again; tells what was wrong.
    ///
    /// # Errors
    /// That the store failed.
    pub fn rebuild(&self) -> Result<Health, StoreError> {
        Ok(Health {
            tables: self
                .0
                .rebuild()?
                .into_iter()
                .map(TableHealth::from)
                .collect(),
            truth: None,
        })
    }
}

/// A base or a backup, to be written as lines of text.
pub struct Export(SnapshotExport);

impl Export {
    /// Opens the file, which may go once it is open.
    ///
    /// # Errors
    /// That it is not there, or damaged.
    pub fn open(snapshot: &Path) -> Result<Self, StoreError> {
        SnapshotExport::open(snapshot, &super::schema()).map(Self)
    }

    /// Writes every record as a line of text.
    ///
    /// # Errors
    /// That it cannot be written, or that the file is damaged.
    pub fn write(self, out: &mut dyn Write) -> Result<Exported, StoreError> {
        self.0.write(&super::schema(), out)
    }
}

/// Writes what can be read of a store that cannot be opened.
///
/// # Errors
/// That a process has it open, or that it cannot be written.
pub fn salvage(data: &Path, out: &mut dyn Write) -> Result<Salvaged, StoreError> {
    store::salvage(data, &super::schema(), out)
}
