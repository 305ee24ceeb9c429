//! Routes as data, the router, and the typed requests.

pub(crate) mod endpoint;
pub(crate) mod resolve;
pub mod route;
pub mod router;
