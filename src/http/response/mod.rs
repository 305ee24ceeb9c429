//! Building a response: head, body, content encoding, ranges, caches and pages.

pub(crate) mod body;
pub(crate) mod cache;
pub mod descriptions;
pub mod localized_messages;
pub(crate) mod pooled_pieces;
pub(crate) mod prepared;
pub(crate) mod range;
pub(crate) mod render;
pub(crate) mod reply;
pub(crate) mod reset_page_view;
pub(crate) mod snapshot_replies;
pub(crate) mod soap;
pub(crate) mod xmltv_cache;
