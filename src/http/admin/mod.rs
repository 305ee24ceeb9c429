//! Handlers of the administration interface, the console's files and the probes of the operations
//! listener.

pub mod about;
pub mod audit;
pub mod backups;
pub mod catalog;
pub mod clock;
pub mod console;
pub mod content;
pub mod epg_sources;
pub mod grants;
pub mod mail;
pub mod operators;
pub mod partners;
pub mod playback;
pub mod probes;
pub mod resolve;
pub mod rights;
pub mod schedule;
pub mod store;
pub mod telemetry;
pub mod user_import;
pub mod users;
