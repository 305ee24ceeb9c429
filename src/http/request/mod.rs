//! Reading a request: validation of the head, path, headers, query, body and client address.

pub(crate) mod accept;
pub mod blocking_body;
pub mod body;
pub mod client_addr;
pub mod context;
pub(crate) mod head_validation;
pub mod headers;
pub mod path_validation;
pub mod query;
pub mod strict_json;
