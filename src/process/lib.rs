//! What a process has of its machine: threads, file descriptors and files. It knows nothing of the service.

// A test build has no callers from outside, so that every `pub` in it is unreachable.
#![cfg_attr(not(test), deny(unreachable_pub))]

pub mod data_file;
pub mod descriptor_reserve;
pub mod files;
pub mod thread_priority;
pub mod worker_pool;

pub use worker_pool::fair_queue::Turn;
pub use worker_pool::pool::{JobError, WorkerPool};
