//! Listeners, TLS, graceful shutdown and the maintenance mode.

mod acceptor;
pub(crate) mod connection_limiter;
pub(crate) mod forwarded;
pub mod listener;
pub(crate) mod maintenance;
pub(crate) mod pass_on;
pub(crate) mod tls;
