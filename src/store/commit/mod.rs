//! The writer thread, and the memory tables and derived states that it publishes commits to.

pub(in crate::store) mod crowd;
pub(in crate::store) mod derived;
pub(in crate::store) mod groups;
pub(in crate::store) mod inbox;
pub(in crate::store) mod memory_table;
pub(in crate::store) mod packed;
pub(in crate::store) mod replica_writer;
pub(in crate::store) mod threads;
pub(in crate::store) mod writer;
