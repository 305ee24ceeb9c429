//! Routes as data, the router, and the typed requests.

pub(crate) mod endpoint;
pub mod route;
pub(crate) mod route_table;
pub mod router;
