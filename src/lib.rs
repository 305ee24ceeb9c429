//! Playgate: the partner interface of a video-streaming platform in one binary.

#![forbid(unsafe_code)]

pub mod config;
pub mod domain;
pub mod ports;
pub mod store;
pub mod types;
