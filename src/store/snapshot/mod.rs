//! Snapshots: their format, the durable state that consists of a snapshot and the WAL, and its verification.

pub(in crate::store) mod compare;
pub(in crate::store) mod durable_reader;
pub(in crate::store) mod durable_state;
pub(in crate::store) mod format;
pub(in crate::store) mod history;
pub(in crate::store) mod snapshot_reader;
pub(in crate::store) mod verify;
