//! Access to the interface: authentication, roles, CORS and the audit record.

pub(crate) mod audit;
pub mod auth;
pub mod cors;
pub mod recent_failures;
pub(crate) mod roles;
