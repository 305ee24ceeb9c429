//! Snapshots: their format, the durable state that consists of a snapshot and the WAL, and the examination of snapshots.

pub(crate) mod durable_reader;
pub(crate) mod durable_state;
pub(crate) mod examine;
pub(crate) mod format;
pub(crate) mod logged_changes;
pub(crate) mod snapshot_reader;
