//! TODO-DOC
pub mod listener;
pub mod maintenance;
pub(crate) mod shutdown;
pub(crate) mod tls;
