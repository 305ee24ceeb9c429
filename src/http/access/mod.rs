//! TODO-DOC
pub(crate) mod audit;
pub mod auth;
pub mod cors;
pub mod recent_failures;
pub(crate) mod roles;
