//! Bounded pools of threads for blocking work, with a queue that gives turns by partner and network.

pub mod fair_queue;
pub(crate) mod pool;
pub mod recent_failures;
