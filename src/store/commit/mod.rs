//! The writer thread, and the memory tables and derived states that it publishes commits to.

pub(crate) mod crowd;
pub(crate) mod derived;
pub(crate) mod groups;
pub(crate) mod inbox;
pub(crate) mod memory_table;
pub(crate) mod packed;
pub(crate) mod replica_writer;
pub(crate) mod threads;
pub(crate) mod writer;
