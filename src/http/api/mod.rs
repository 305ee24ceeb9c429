//! Handlers of the partner interface, one file per resource. A handler calls the domain with typed
//! parameters and builds the reply. It contains no business rules. The route table names its route;
//! `data/openapi/` describes parameters and error codes.

pub(crate) mod catalog;
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
pub(crate) mod telemetry;
pub(crate) mod users;
