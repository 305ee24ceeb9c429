//! The forms that JSON takes on the wire.

pub mod catalog;
pub mod entitlement;
pub mod guide;
pub mod login;
pub mod mail;
pub mod partners;
pub mod playback;
pub mod telemetry;
pub mod users;
