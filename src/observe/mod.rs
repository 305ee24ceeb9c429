//! What operators see of the running service: log, metrics, readiness. Nothing here decides anything.

mod journal;
pub mod log;
pub mod metrics;
pub mod readiness;
