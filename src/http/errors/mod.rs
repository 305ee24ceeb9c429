//! TODO-DOC
pub mod api_error;
pub mod code;
pub mod combine;
pub mod mapping;
