//! The health of what is stored: records and indexes compared, indexes made again.
//!
//! It knows tables by name only.

use crate::store::{Store, StoreError, TableReport};

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

/// Why the store could not be examined or mended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct UpkeepError(#[from] StoreError);

/// Looks after the store. Its verbs block for as long as the store is large.
#[derive(Clone)]
pub struct Upkeep(Store);

impl Upkeep {
    /// The upkeep of a store.
    #[must_use]
    pub const fn new(store: Store) -> Self {
        Self(store)
    }

    /// Compares records and indexes, both ways, while no write runs.
    ///
    /// # Errors
    /// That the store failed.
    pub fn verify(&self) -> Result<Vec<TableHealth>, UpkeepError> {
        let reports = self.0.verify()?;
        Ok(reports.into_iter().map(TableHealth::from).collect())
    }

    /// Makes the indexes right again; tells what was wrong.
    ///
    /// # Errors
    /// That the store failed.
    pub fn rebuild(&self) -> Result<Vec<TableHealth>, UpkeepError> {
        let reports = self.0.rebuild()?;
        Ok(reports.into_iter().map(TableHealth::from).collect())
    }
}
