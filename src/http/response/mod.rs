//! Building a response: head, body, content encoding, ranges, caches and pages.

pub mod body;
pub mod cache;
pub(crate) mod content_encoding;
pub mod localized_messages;
pub mod range;
pub mod render;
pub mod reply;
pub mod reset_page_view;
pub(crate) mod respond;
pub(crate) mod soap;
pub mod xmltv_cache;
