//! Listeners, TLS, graceful shutdown and the maintenance mode.

mod acceptor;
pub mod connection_limiter;
pub mod forwarded;
pub mod listener;
pub mod maintenance;
pub mod pass_on;
pub(crate) mod tls;
