//! HTTP: from a socket to a handler and back.
//!
//! A request is read (`listener`, `connection_state`, `body`), checked in a fixed order (`service`: framing, path,
//! method, partner, user, rate, size, coding, parameters), parsed into an [`endpoint`], handled (`dispatch`, `api`,
//! `admin`) and answered (`reply`, `respond`, `error`). No product rule belongs here, and nothing here names the store.

mod accept;
pub mod admin;
pub mod api;
mod audit;
pub mod auth;
pub mod blocking_body;
pub mod body;
pub mod client_addr;
pub mod combine;
pub mod connection_state;
pub mod console;
mod content_encoding;
pub mod context;
pub mod cors;
pub mod dispatch;
pub mod endpoint;
pub mod error;
pub mod error_code;
pub mod error_mapping;
pub mod fair_queue;
pub mod h1;
mod h2;
mod h2_frame_limit;
mod h2_streams;
mod head_validation;
pub mod headers;
mod io_observer;
pub mod listener;
pub mod localized_messages;
pub mod maintenance;
pub mod metrics;
pub mod offload;
pub mod openapi;
pub mod path_validation;
pub mod query;
pub mod range;
pub mod recent_failures;
pub mod render;
pub mod reply;
pub mod reset_page_view;
mod respond;
pub mod response_body;
pub mod response_cache;
mod roles;
pub mod route;
pub mod route_table;
pub mod router;
pub mod service;
mod shutdown;
mod soap;
pub mod state;
pub mod strict_json;
mod tls;
pub mod wire;
pub mod worker_pool;
pub mod xmltv_cache;
