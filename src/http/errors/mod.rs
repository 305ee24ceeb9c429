//! Errors of the interface: codes, statuses, and the mapping from errors of the domain.

pub(crate) mod api_error;
pub mod code;
pub(crate) mod mapping;
