//! What operators see of the running service: log, metrics, readiness. This module decides nothing.

// A test build has no callers from outside, so that every `pub` in it is unreachable.
#![cfg_attr(not(test), deny(unreachable_pub))]

pub mod activity;
pub mod fleet;
mod journal;
pub mod log;
mod log_bounds;
pub mod metrics;
pub mod readiness;

pub use fleet::FleetReport;
pub use metrics::Registry;
