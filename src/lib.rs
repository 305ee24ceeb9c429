//! Playgate: the partner interface of a video-streaming platform in one binary.

#![forbid(unsafe_code)]

pub mod app;
pub mod config;
pub mod domain;
pub mod http;
pub mod jobs;
pub mod observe;
pub mod ports;
pub mod store;
pub mod types;
