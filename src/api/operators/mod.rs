//! The administration interface, one file a resource, the console's files and the probes of the operations listener.

pub(crate) mod about;
pub(crate) mod activity;
pub(crate) mod audit;
pub mod backups;
pub(crate) mod catalog;
pub(crate) mod clock;
pub(crate) mod conformance;
pub(crate) mod console;
pub(crate) mod epg_sources;
pub mod faults;
pub(crate) mod fleet;
pub(crate) mod grants;
pub(crate) mod lab;
pub(crate) mod mail;
pub(crate) mod operator_accounts;
pub(crate) mod partners;
pub(crate) mod playback;
pub(crate) mod probes;
pub(crate) mod request_members;
pub(crate) mod requests;
pub(crate) mod reset;
pub(crate) mod rights;
pub(crate) mod schedule;
pub(crate) mod store;
pub(crate) mod telemetry;
pub(crate) mod users;
