//! Handlers of the partner interface, one file per resource. A handler calls the domain with typed
//! parameters and builds the reply. It contains no business rules.

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
