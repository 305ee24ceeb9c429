//! Errors of the interface: codes, statuses, and the mapping from errors of the domain.

pub mod api_error;
pub mod code;
pub mod mapping;
