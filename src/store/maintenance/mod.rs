//! The maintenance thread and its tasks: compaction, verification, backups, dumps.

pub(in crate::store) mod admin;
pub(in crate::store) mod backup;
pub(in crate::store) mod checkpoint;
pub(in crate::store) mod compaction;
pub(in crate::store) mod compare;
pub(in crate::store) mod copy;
pub(in crate::store) mod dump;
pub(in crate::store) mod join;
pub(in crate::store) mod missing_files;
pub(in crate::store) mod new_snapshot;
pub(in crate::store) mod retention;
pub(in crate::store) mod salvage;
mod staging;
pub(in crate::store) mod thread;
pub(in crate::store) mod verify;
