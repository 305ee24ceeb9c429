//! The partner interface, one file a resource, and the pages of the public listener.

pub(crate) mod catalog;
pub(crate) mod client_packages;
pub(crate) mod devices;
pub(crate) mod front_page;
pub(crate) mod guide_export;
pub(crate) mod lab;
pub(crate) mod lab_player;
pub(crate) mod license;
pub(crate) mod login;
pub(crate) mod media;
pub(crate) mod offers;
pub(crate) mod openapi;
pub(crate) mod playback;
pub(crate) mod reset_page;
pub(crate) mod schedule;
pub(crate) mod sessions;
pub mod telemetry;
pub(crate) mod users;
