//! The writer thread and what it publishes to: the memtable and the tables in memory.

pub(in crate::store) mod memory_table;
pub(in crate::store) mod memtable;
pub(in crate::store) mod packed;
pub(in crate::store) mod threads;
pub(in crate::store) mod writer;
