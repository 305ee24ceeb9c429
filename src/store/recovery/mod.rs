//! Opening a store: evidence of the promised commits, and recovery.

pub(in crate::store) mod deferred;
pub(in crate::store) mod engine_checks;
pub(in crate::store) mod engines;
pub(in crate::store) mod evidence;
pub(in crate::store) mod installation;
pub(in crate::store) mod loss;
pub(in crate::store) mod opening;
pub(in crate::store) mod supervision;
pub(in crate::store) mod task;
