//! Types of the wire, one file per resource: what a body looks like, and nothing else. They are made
//! from what the domain returns and never enter a table.

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
