//! Reading a request: validation of the head, path, headers, query, body and client address.

pub(crate) mod accept;
pub(crate) mod blocking_body;
pub(crate) mod body;
pub(crate) mod client_addr;
pub(crate) mod context;
pub(crate) mod head_validation;
pub mod headers;
pub(crate) mod path_validation;
pub(crate) mod query;
pub(crate) mod strict_json;
