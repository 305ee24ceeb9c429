//! HTTP: from a socket to a handler and back.
//!
//! A request is read (`listener`, `connection_state`, `body`), checked in a fixed order (`service`: framing, path,
//! method, partner, user, rate, size, coding, parameters), parsed into an [`endpoint`], handled (`dispatch`, `api`,
//! `admin`) and answered (`reply`, `respond`, `error`). No product rule belongs here, and nothing here names the store.

pub mod access;
pub mod admin;
pub mod api;
pub mod connection;
pub mod console;
pub mod errors;
pub mod metrics;
pub mod offload;
pub mod openapi;
pub mod pipeline;
pub mod request;
pub mod response;
pub mod routing;
pub mod server;
pub mod state;
pub mod wire;
