//! What operators see of the running service: log, metrics, readiness. This module decides nothing.

pub mod activity;
pub mod fleet;
mod journal;
pub(crate) mod log;
mod log_bounds;
pub mod metrics;
pub(crate) mod readiness;
