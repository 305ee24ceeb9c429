//! The forms that guides and playlists take on the wire, both ways.

pub mod guide;
pub mod m3u;
pub mod report;
pub mod xmltv;
