//! Maintenance of the store for operators: verify, rebuild indexes, compact.
//!
//! This module knows tables only by name.

use std::path::PathBuf;

pub use playgate_store::{
    DurableStateReport, NEEDS, TableReport, Verified, WritePriority, Written,
};
use playgate_store::{Store, StoreError};

/// Methods that verify, rebuild, compact or write a snapshot block for a time proportional to the size of the store.
#[derive(Clone)]
pub struct StoreAdmin(Store);

impl StoreAdmin {
    pub const fn new(store: Store) -> Self {
        Self(store)
    }

    pub fn is_writable(&self) -> bool {
        self.0.is_writable()
    }

    /// The highest priority whose writes are rejected for lack of disk space; all lower ones are rejected, too.
    pub fn refuses(&self) -> Option<WritePriority> {
        self.0.refuses()
    }

    pub fn written(&self) -> Written {
        self.0.written()
    }

    pub fn free_bytes(&self) -> Option<u64> {
        Some(self.0.space()?.0)
    }

    /// Writes a new snapshot with every commit so far and returns its file, for a reader on this machine.
    pub fn write_snapshot(&self) -> Result<PathBuf, StoreError> {
        self.0.snapshot_file()
    }

    /// Gives up the way back to the version before a format upgrade. It must be called before a client's change is
    /// answered, because that version would come back without the change.
    pub fn finalize_upgrade(&self) -> Result<(), StoreError> {
        self.0.finalize_upgrade()
    }

    /// Rewrites the engine while the service runs; returns its size in bytes before and after.
    pub fn compact(&self) -> Result<(u64, u64), StoreError> {
        self.0.compact()
    }

    /// Verifies records and indexes in both directions, and compares the engine with snapshot and log. Commits
    /// continue.
    pub fn verify(&self) -> Result<Verified, StoreError> {
        self.0.verify()
    }

    pub fn rebuild(&self) -> Result<Verified, StoreError> {
        Ok(Verified {
            tables: self.0.rebuild()?,
            durable_state: None,
        })
    }
}
