//! What operators see of the running service: log, metrics, readiness. This module decides nothing.

mod journal;
pub(crate) mod log;
pub mod metrics;
pub(crate) mod readiness;
