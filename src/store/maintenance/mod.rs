//! The maintenance thread and its tasks: compaction, verification, backups, dumps.

pub(crate) mod admin;
pub(crate) mod backup;
pub(crate) mod checkpoint;
pub(crate) mod compaction;
pub(crate) mod compare;
pub(crate) mod copy;
pub(crate) mod dump;
pub(crate) mod join;
pub(crate) mod missing_files;
pub(crate) mod new_snapshot;
pub(crate) mod retention;
pub(crate) mod salvage;
mod staging;
pub(crate) mod thread;
pub(crate) mod verify;
