//! Opening a store: layout on disk, evidence of the promised commits, recovery and salvage.

pub(in crate::store) mod engine_checks;
pub(in crate::store) mod evidence;
pub(in crate::store) mod installation;
pub(in crate::store) mod layout;
pub(in crate::store) mod logged_changes;
pub(in crate::store) mod loss;
pub(in crate::store) mod opening;
pub(in crate::store) mod salvage;
