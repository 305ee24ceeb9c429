//! Access to the interface: authentication, rate limits, CORS and the audit record.

pub(crate) mod audit;
pub mod auth;
pub(crate) mod cors;
pub(crate) mod local_admin;
