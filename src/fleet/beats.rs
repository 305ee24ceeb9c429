//! Heartbeats between members: a standby reports to the owner those that it has answered.

use playgate_types::{RelayedBeat, SessionId};

/// Bytes of a heartbeat between members.
pub(super) const BEAT_BYTES: usize = 40;
/// Heartbeats of one request.
pub(super) const BEATS_MAX: usize = 100_000;

pub(super) fn encode_beat(beat: &RelayedBeat) -> [u8; BEAT_BYTES] {
    let mut bytes = [0; BEAT_BYTES];
    let parts = [
        &beat.session.as_bytes()[..],
        &beat.position.to_be_bytes(),
        &beat.bitrate.to_be_bytes(),
        &beat.width.to_be_bytes(),
        &beat.height.to_be_bytes(),
    ];
    let all = parts.into_iter().flatten();
    bytes.iter_mut().zip(all).for_each(|(to, from)| *to = *from);
    bytes
}

pub(super) fn decode_beat(bytes: &[u8]) -> Option<RelayedBeat> {
    let (session, rest) = bytes.split_first_chunk()?;
    let (position, rest) = rest.split_first_chunk()?;
    let (bitrate, rest) = rest.split_first_chunk()?;
    let (width, rest) = rest.split_first_chunk()?;
    let (height, _) = rest.split_first_chunk()?;
    Some(RelayedBeat {
        session: SessionId::from_bytes(*session),
        position: i64::from_be_bytes(*position),
        bitrate: u64::from_be_bytes(*bitrate),
        width: u32::from_be_bytes(*width),
        height: u32::from_be_bytes(*height),
    })
}
