//! The HTTP front: from a socket to a handler and back.
//!
//! A request is read (`listen`, `pulse`, `body`), checked in a fixed order (`service`: framing,
//! path, method, partner, user, rate, size, coding, parameters), parsed into an [`endpoint`], acted
//! on (`dispatch`, `api`, `admin`) and answered (`reply`, `render`, `error`). No rule of the
//! product stands here, and nothing here knows the store.

pub mod admin;
pub mod api;
mod audit;
pub mod auth;
pub mod body;
pub mod code;
mod coding;
pub mod combine;
pub mod console;
pub mod context;
pub mod cors;
pub mod dispatch;
pub mod drive;
mod drive_h2;
pub mod endpoint;
pub mod error;
pub mod fair_queue;
mod finish;
mod frames;
mod framing;
pub mod front;
mod halt;
pub mod headers;
pub mod json;
pub mod lanes;
pub mod listen;
pub mod maintenance;
pub mod matcher;
pub mod messages;
pub mod metrics;
pub mod net;
pub mod openapi;
pub mod pages;
pub mod path;
pub mod pipe;
pub mod pulse;
mod quality;
pub mod query;
pub mod range;
pub mod recent_failures;
pub mod render;
pub mod reply;
pub mod response_cache;
mod roles;
pub mod routes;
pub mod run;
pub mod service;
pub mod situations;
mod soap;
pub mod stream;
mod streams;
pub mod table;
mod tls;
pub mod wire;
mod wires;
pub mod xmltv_cache;
