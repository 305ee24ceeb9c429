//! TODO-DOC
pub mod fair_queue;
pub mod pool;
