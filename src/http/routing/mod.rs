//! TODO-DOC
pub mod dispatch;
pub mod endpoint;
pub mod route;
pub mod route_table;
pub mod router;
