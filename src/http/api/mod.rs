//! Handlers of the partner interface, one file per resource: parameters in, a domain call, a reply
//! out. No rule of the product stands here.

pub mod catalog;
pub mod devices;
pub mod guide_export;
pub mod license;
pub mod login;
pub mod media;
pub mod offers;
pub mod openapi;
pub mod playback;
pub mod reset_page;
pub mod schedule;
pub mod sessions;
pub mod telemetry;
pub mod users;
