//! The last heartbeat of a session, as a standby of a fleet reports it to the owner.

use super::SessionId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelayedBeat {
    pub session: SessionId,
    /// The position of the player by now, as in a heartbeat.
    pub position: i64,
    pub bitrate: u64,
    pub width: u32,
    pub height: u32,
}
