//! Routes as data, the router, the typed endpoints and the dispatch to handlers.

pub mod dispatch;
pub mod endpoint;
pub mod route;
pub mod route_table;
pub mod router;
