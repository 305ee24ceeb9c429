//! Routes as data, the router, and the typed requests.

pub mod endpoint;
pub mod resolve;
pub mod route;
pub mod router;
