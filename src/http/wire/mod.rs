//! The forms that data takes on the wire: JSON, guides, playlists.

pub mod catalog;
pub mod entitlement;
pub mod guide;
pub mod login;
pub mod m3u;
pub mod mail;
pub mod partners;
pub mod playback;
pub mod report;
pub mod telemetry;
pub mod users;
pub mod xmltv;
