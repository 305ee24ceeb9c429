//! Bounded pools of threads for blocking work, and slots for requests to other servers, with queues that give turns by
//! partner and network.

pub mod export_slots;
pub mod fair_queue;
pub mod license_slots;
pub mod pool;
pub mod recent_failures;
pub mod slots;
