//! Maintenance of the store for operators: verify, rebuild indexes, compact, export.
//!
//! It knows tables only by name.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::store::{
    self, DurableStateReport, Exported, Salvaged, SnapshotExport, Store, StoreError, TableReport,
    Verified,
};
pub(crate) use crate::store::{NEEDS, WritePriority, Written};

/// Result of comparing the engine with snapshot and log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurableStateHealth {
    /// The last commit in the snapshot; `None` if the log is complete.
    pub snapshot: Option<u64>,
    pub number: u64,
    /// Pairs that are missing or different in the engine.
    pub missing: u64,
    /// Pairs that exist only in the engine.
    pub extra: u64,
    /// Why snapshot and log could not be read completely.
    pub damage: Option<String>,
    /// Examples of wrong pairs, as `tree:key` in hexadecimal.
    pub places: Vec<String>,
    /// The source from which the engine was rebuilt when the store was opened.
    pub rebuilt_from: Option<String>,
}

impl From<DurableStateReport> for DurableStateHealth {
    fn from(report: DurableStateReport) -> Self {
        let DurableStateReport {
            snapshot,
            number,
            missing,
            extra,
            damage,
            rebuilt_from,
        } = report;
        Self {
            snapshot,
            number,
            missing: missing.count,
            extra: extra.count,
            damage,
            places: [missing.some, extra.some].concat(),
            rebuilt_from,
        }
    }
}

/// Result of a verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Each table with its indexes.
    pub tables: Vec<TableHealth>,
    /// The engine compared with snapshot and log; `None` if it was not compared.
    pub durable_state: Option<DurableStateHealth>,
}

impl Health {
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.tables.iter().all(TableHealth::is_sound)
            && self.durable_state.as_ref().is_none_or(|state| {
                state.missing == 0 && state.extra == 0 && state.damage.is_none()
            })
    }
}

/// Result of the verification of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableHealth {
    pub table: &'static str,
    /// Number of records read.
    pub records: u64,
    pub damaged: u64,
    /// Index entries that are missing.
    pub missing: u64,
    /// Index entries without a record.
    pub stale: u64,
    /// Examples of errors, as `tree:key` in hexadecimal.
    pub places: Vec<String>,
}

impl TableHealth {
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

/// Store maintenance. Its methods block for a time proportional to the size of the store.
#[derive(Clone)]
pub struct StoreAdmin(Store);

impl StoreAdmin {
    #[must_use]
    pub const fn new(store: Store) -> Self {
        Self(store)
    }

    /// Whether writes are accepted: not while the disk is full or read-only.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.0.is_writable()
    }

    /// The highest priority whose writes are rejected for lack of disk space; all lower ones are rejected, too.
    #[must_use]
    pub fn refuses(&self) -> Option<WritePriority> {
        self.0.refuses()
    }

    /// Commit counters since the start.
    #[must_use]
    pub fn written(&self) -> Written {
        self.0.written()
    }

    /// Free disk space in bytes; `None` for a store in memory.
    #[must_use]
    pub fn free_bytes(&self) -> Option<u64> {
        Some(self.0.space()?.0)
    }

    /// Writes a new snapshot with every commit so far and returns its file, for a reader on this machine.
    pub fn write_snapshot(&self) -> Result<PathBuf, StoreError> {
        self.0.snapshot_file()
    }

    /// Rewrites the engine while the service runs; returns its size in bytes before and after.
    pub fn compact(&self) -> Result<(u64, u64), StoreError> {
        self.0.compact()
    }

    /// Verifies records and indexes in both directions, and compares the engine with snapshot and log. Commits
    /// continue.
    pub fn verify(&self) -> Result<Health, StoreError> {
        let Verified {
            tables,
            durable_state,
        } = self.0.verify()?;
        Ok(Health {
            tables: tables.into_iter().map(TableHealth::from).collect(),
            durable_state: durable_state.map(DurableStateHealth::from),
        })
    }

    /// Rebuilds the indexes; returns the errors that it found.
    pub fn rebuild(&self) -> Result<Health, StoreError> {
        Ok(Health {
            tables: self
                .0
                .rebuild()?
                .into_iter()
                .map(TableHealth::from)
                .collect(),
            durable_state: None,
        })
    }
}

/// A text export of a snapshot or backup.
pub(crate) struct Export(SnapshotExport);

impl Export {
    /// Opens the file; it may be deleted afterwards.
    pub(crate) fn open(snapshot: &Path) -> Result<Self, StoreError> {
        SnapshotExport::open(snapshot, &super::schema()).map(Self)
    }

    /// Writes every record as a line of text.
    pub(crate) fn write(self, out: &mut dyn Write) -> Result<Exported, StoreError> {
        self.0.write(&super::schema(), out)
    }
}

/// Writes the readable records of a store that cannot be opened.
///
/// # Errors
/// A [`StoreError`] if a process has the store open or the output fails.
pub(crate) fn salvage(data: &Path, out: &mut dyn Write) -> Result<Salvaged, StoreError> {
    store::salvage(data, &super::schema(), out)
}
