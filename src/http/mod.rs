//! HTTP: from a socket to a handler and back.
//!
//! A request arrives at a listener ([`server`]) and a [`connection`]. The [`pipeline`] shows its way on one page: the
//! head is read and validated ([`request`]), the route found ([`routing`]), access checked ([`access`]), the body read,
//! the request parsed into a value of its type and handled ([`api`], [`admin`]), and the [`response`] built. At a
//! [`standby`] of a fleet some requests go to the owner instead. No product rule belongs here, and nothing here names the store.
//!
//! The floors, each of which imports only those below it:
//!
//! ```text
//! server
//! connection
//! standby
//! pipeline
//! route_table, openapi            the rows and their description
//! api, admin                     handlers
//! routing                        typed requests, routes, router
//! state, faults, metrics         what requests share
//! response, access
//! request
//! errors, route_facts
//! ```

pub mod access;
pub(crate) mod connection;
pub(crate) mod connection_state;
pub mod errors;
pub(crate) mod faults;
pub mod freshness;
pub(crate) mod metrics;
pub(crate) mod offload;
pub(crate) mod pipeline;
pub mod request;
pub mod response;
pub mod route_facts;
pub mod routing;
pub mod server;
pub(crate) mod standby;
pub(crate) mod standby_fleet;
pub mod state;
