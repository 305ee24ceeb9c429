//! Types of the wire, one file per resource: what a body looks like, and nothing else. They are made
//! from what the domain returns and never enter a table.

pub mod audit;
pub mod backups;
pub mod catalog;
pub mod entitlement;
pub mod events;
pub mod feeds;
pub mod guide;
pub mod login;
pub mod m3u;
pub mod mail;
pub mod partners;
pub mod playback;
pub mod report;
pub mod rights;
pub mod telemetry;
pub mod users;
pub mod xmltv;
