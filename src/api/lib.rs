//! The routes: what the partner interface and the administration interface offer, on the kernel in [`http`](playgate_http).
//!
//! One folder an interface, one file a resource: its requests with their parsers, its handlers, and its answers. Where
//! one file would be too long, the resource is a folder with `request.rs` and `answer.rs`. A handler calls the domain
//! with typed parameters and builds the answer; it contains no business rule. Answers are built from domain types and
//! are never stored. [`route_table`] names the route of each handler; each file describes parameters and error
//! codes.

// A test build has no callers from outside, so that every `pub` in it is unreachable.
#![cfg_attr(not(test), deny(unreachable_pub))]

mod embedded_files;
pub mod openapi;
pub mod operators;
pub mod partner;
pub mod route_table;
#[cfg(test)]
mod router_tests;
