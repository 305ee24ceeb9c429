//! Access to the interface: authentication, roles, CORS and the audit record.

pub(crate) mod audit;
pub mod auth;
pub(crate) mod cors;
pub(crate) mod roles;
