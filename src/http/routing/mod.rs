//! Routes as data, the router, the typed endpoints and the dispatch to handlers.

pub(crate) mod dispatch;
pub(crate) mod endpoint;
pub mod route;
pub(crate) mod route_table;
pub mod router;
