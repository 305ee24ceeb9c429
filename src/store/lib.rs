//! Typed tables over an ordered key-value engine, behind a write-ahead log (WAL).
//!
//! Each change is made by a closure on the single writer thread and becomes a write batch. The
//! writer commits waiting batches as a group: it appends them to the WAL, syncs once, updates the
//! [`CommitListener`]s in memory and answers. A second thread applies commits to the engine;
//! commits that the engine lacks are in the memtable, which a read checks before the engine.
//!
//! The durable state is the newest verified snapshot plus the WAL. The engine is derived from it,
//! is verified at every start and is rebuilt if the two differ. This module must not know the meaning
//! of the tables.
//!
//! # Floors
//!
//! Everything imports only from its own line and those above it.
//!
//! ```text
//! error, key, record, table, write_batch, history, failure   the words of all
//! wal, engine, lock, layout, disk_space                      the log, the ordered state, the data directory
//! snapshot                                                   snapshot and WAL as one durable state
//! recovery                                                   from these files to an engine with every promised commit
//! memtable, table_copies, shared, txn                        what the threads of a store share; a transaction
//! replication                                                the log of a fleet
//! commit                                                     the writer thread, and the tables in memory
//! handle                                                     `Store`
//! options, bulk, fleet_member, maintenance                   how a store is opened; its other work
//! schema, open, import                                       upgrades, opens and closes a store
//! ```

// A test build has no callers from outside, so that every `pub` in it is unreachable.
#![cfg_attr(not(test), deny(unreachable_pub))]

mod bulk;
mod commit;
mod disk_space;
mod engine;
mod error;
mod failure;
mod fleet_member;
mod handle;
mod history;
mod import;
mod key;
mod layout;
mod lock;
mod maintenance;
mod memtable;
mod open;
mod options;
mod record;
mod recovery;
pub mod replication;
mod schema;
mod shared;
mod shared_log_error;
mod snapshot;
mod table;
mod table_copies;
mod txn;
mod wal;
mod write_batch;

#[cfg(test)]
mod bulk_tests;
#[cfg(test)]
mod deferred_tests;
#[cfg(test)]
mod dump_tests;
#[cfg(test)]
mod fault_tests;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
#[cfg(test)]
mod missing_files_tests;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod promise_tests;
#[cfg(test)]
mod recovery_tests;
#[cfg(test)]
mod tests;

pub use bulk::BulkWrites;
pub use commit::derived::{Derived, TableWatch};
pub use commit::memory_table::{Changed, CommitListener, MemoryTable};
pub use commit::packed::PackedTable;
pub use commit::writer::{Commit, Durability, SYNC_WITHIN};
pub use disk_space::{NEEDS, WritePriority};
pub use error::StoreError;
pub use failure::OnFailure;
pub use handle::Store;
pub use history::History;
pub use import::Import;
pub use key::{All, Key, PrefixOf};
pub use layout::has_data;
pub use lock::StoreLock;
pub use maintenance::admin::SnapshotExport;
pub use maintenance::backup::{BackupFile, Restore, Restored, instance_of, list_backups};
pub use maintenance::copy::{bytes_below, copy_store};
pub use maintenance::dump::{Exported, Imported};
pub use maintenance::join::{Join, check_unused};
pub use maintenance::retention::{Retention, prune_backups};
pub use maintenance::salvage::{Salvaged, salvage};
pub use maintenance::verify::{DurableStateReport, Verified};
pub use options::{FleetAccess, FormatUpgrade, Options};
pub use record::{Record, VALUE_MAX, decode_note, encode_note, golden, read as read_record};
pub use recovery::task::Loss;
pub use schema::{Schema, UpgradeStep};
pub use shared::{SnapshotClock, SnapshotMetadata, VerifySnapshot, Written};
pub use snapshot::examine::{Found, SnapshotReport, TableReport, check_snapshot};
pub use snapshot::format::SnapshotHead;
pub use table::{Entries, Index, PrimaryKey, Table, Tables, TreeName};
pub use txn::Txn;
