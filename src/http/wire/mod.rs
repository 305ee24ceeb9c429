//! The forms that JSON takes on the wire.

pub mod guide;
pub mod playback;
