//! Listeners, TLS, graceful shutdown and the maintenance mode.

pub mod listener;
pub(crate) mod maintenance;
pub(crate) mod shutdown;
pub(crate) mod tls;
