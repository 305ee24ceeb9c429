//! Serialized request and response bodies, one file per resource. They are built from domain types
//! and are never stored.

pub(crate) mod audit;
pub(crate) mod backups;
pub(crate) mod catalog;
pub(crate) mod cmcd;
pub(crate) mod conformance;
pub(crate) mod entitlement;
pub(crate) mod epg_json;
mod epg_json_details;
pub(crate) mod epg_sources;
mod event_members;
pub(crate) mod fleet;
pub(crate) mod har;
pub(crate) mod import_report;
pub(crate) mod lab;
pub(crate) mod login;
pub(crate) mod m3u;
pub(crate) mod mail;
pub(crate) mod partners;
pub(crate) mod playback;
mod player_event;
pub(crate) mod quality;
pub(crate) mod requests;
pub(crate) mod rights;
pub(crate) mod telemetry;
pub(crate) mod telemetry_export;
pub(crate) mod users;
pub(crate) mod xmltv;
