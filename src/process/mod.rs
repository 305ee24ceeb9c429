//! What a process has of its machine: threads, file descriptors and files. It knows nothing of the service.

pub(crate) mod data_file;
pub(crate) mod descriptor_reserve;
pub(crate) mod files;
pub(crate) mod thread_priority;
pub mod worker_pool;
