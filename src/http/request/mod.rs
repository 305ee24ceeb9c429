//! Reading a request: head, path, headers, query, body, request id and client address.

pub(crate) mod blocking_body;
pub(crate) mod body;
pub mod body_budget;
pub(crate) mod context;
pub(crate) mod head_validation;
pub mod headers;
pub(crate) mod object;
pub mod params;
pub mod payload;
pub(crate) mod query;
