//! Snapshots: their format, the durable state that consists of a snapshot and the WAL, and the examination of snapshots.

pub(in crate::store) mod durable_reader;
pub(in crate::store) mod durable_state;
pub(in crate::store) mod examine;
pub(in crate::store) mod format;
pub(in crate::store) mod logged_changes;
pub(in crate::store) mod snapshot_reader;
