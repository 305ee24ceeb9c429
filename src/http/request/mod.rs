//! Reading a request: head, path, headers, query, body, request id and client address.

pub mod blocking_body;
pub mod body;
pub mod body_budget;
pub mod context;
pub mod head_validation;
pub mod headers;
pub mod object;
pub mod params;
pub mod payload;
pub mod query;
