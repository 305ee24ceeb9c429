//! Playgate: the partner interface of a video-streaming platform in one binary.

#![forbid(unsafe_code)]

pub mod catalog_file;
pub mod domain;
pub mod ports;
pub mod store;
pub mod types;
