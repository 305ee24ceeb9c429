//! The writer thread and what it publishes to: the memtable, the tables in memory and the states derived from them.

pub(in crate::store) mod bulk;
pub(in crate::store) mod derived;
pub(in crate::store) mod memory_table;
pub(in crate::store) mod memtable;
pub(in crate::store) mod packed;
pub(in crate::store) mod threads;
pub(in crate::store) mod writer;
