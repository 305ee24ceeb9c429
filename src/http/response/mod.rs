//! Building a response: head, body, content encoding, ranges, caches and pages.

pub mod body;
pub(crate) mod cache;
pub mod descriptions;
pub mod localized_messages;
pub mod pages;
pub mod pooled_pieces;
pub mod prepared;
pub mod range;
pub(crate) mod render;
pub mod reply;
pub(crate) mod snapshot_replies;
pub(crate) mod soap;
pub mod xmltv_cache;
