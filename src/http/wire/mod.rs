//! Serialized request and response bodies, one file per resource. They are built from domain types
//! and are never stored.

pub mod audit;
pub mod backups;
pub mod catalog;
pub mod entitlement;
pub mod epg_json;
pub mod epg_sources;
pub mod import_report;
pub mod login;
pub mod m3u;
pub mod mail;
pub mod partners;
pub mod playback;
pub mod rights;
pub mod telemetry;
pub mod telemetry_export;
pub mod users;
pub mod xmltv;
