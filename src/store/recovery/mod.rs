//! Opening a store: evidence of the promised commits, and recovery.

pub(crate) mod deferred;
pub(crate) mod engine_checks;
pub(crate) mod engines;
pub(crate) mod evidence;
pub(crate) mod installation;
pub(crate) mod loss;
pub(crate) mod opening;
pub(crate) mod supervision;
pub(crate) mod task;
