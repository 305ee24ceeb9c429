//! The frames of telemetry segments: each contains one event.
//!
//! An event cannot forge a frame: the mark contains a byte that JSON always escapes.

use std::io::{self, Write};

use super::model::{EVENT_BYTES_MAX, Fingerprint, Sender, StoredEvent};
use playgate_segment_log::frame::{self, FrameBody, HEAD_BYTES};
use playgate_segment_log::member_index::OwnerKey;
use playgate_types::{PartnerId, UnixSeconds, UserId};

/// Length of the fields before the JSON text: user, partner, received, timestamp, sequence, fingerprint.
const FIELDS_BYTES: usize = 16 + 16 + 8 + 8 + 8 + 8;
/// Length of a frame without the JSON text.
pub(super) const OVERHEAD_BYTES: usize = HEAD_BYTES + FIELDS_BYTES;

pub(super) type EventFrames<R> = frame::Frames<StoredEvent, R>;

pub(super) fn write<T: AsRef<[u8]>>(event: &StoredEvent<T>, out: &mut Vec<u8>) {
    frame::write_frame::<StoredEvent>(out, |out| {
        out.extend_from_slice(event.sender.user.as_bytes());
        out.extend_from_slice(event.sender.partner.as_bytes());
        out.extend_from_slice(&event.received.0.to_le_bytes());
        out.extend_from_slice(&event.timestamp_millis.to_le_bytes());
        out.extend_from_slice(&event.sequence.to_le_bytes());
        out.extend_from_slice(&event.fingerprint.0.to_le_bytes());
        out.extend_from_slice(event.json.as_ref());
    });
}

pub(super) fn length<T: AsRef<[u8]>>(event: &StoredEvent<T>) -> u64 {
    (OVERHEAD_BYTES + event.json.as_ref().len()) as u64
}

/// Lists the users with events in a member of a compressed segment.
pub(super) fn users_in(member: &[u8]) -> Vec<OwnerKey> {
    let mut users = Vec::new();
    let mut frames = EventFrames::new(member);
    // Reading from memory does not fail.
    while let Ok(Some(event)) = frames.next_frame() {
        let user = key_of(&event.sender.user);
        if users.last() != Some(&user) {
            users.push(user);
        }
    }
    users
}

pub(super) fn key_of(user: &UserId) -> OwnerKey {
    OwnerKey::new(user.as_bytes())
}

pub(super) fn write_holes(gap: u64, to: &mut impl Write) -> io::Result<()> {
    frame::write_holes::<StoredEvent>(gap, to)
}

impl FrameBody for StoredEvent {
    const MARK: [u8; 4] = *b"PGe\x01";
    const HOLE: [u8; 4] = *b"PGe\x02";
    const BODY_MAX: usize = FIELDS_BYTES + EVENT_BYTES_MAX;

    fn parse(body: &[u8]) -> Option<Self> {
        let (user, body) = body.split_first_chunk::<16>()?;
        let (partner, body) = body.split_first_chunk::<16>()?;
        let (received, body) = body.split_first_chunk::<8>()?;
        let (timestamp, body) = body.split_first_chunk::<8>()?;
        let (sequence, body) = body.split_first_chunk::<8>()?;
        let (fingerprint, json) = body.split_first_chunk::<8>()?;
        Some(Self {
            sender: Sender {
                user: UserId::from_bytes(*user),
                partner: PartnerId::from_bytes(*partner),
            },
            received: UnixSeconds(i64::from_le_bytes(*received)),
            timestamp_millis: i64::from_le_bytes(*timestamp),
            sequence: i64::from_le_bytes(*sequence),
            fingerprint: Fingerprint(u64::from_le_bytes(*fingerprint)),
            json: json.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(sequence: i64, length: usize) -> StoredEvent {
        StoredEvent {
            sender: Sender {
                user: UserId::from_bytes([1; 16]),
                partner: PartnerId::from_bytes([2; 16]),
            },
            received: UnixSeconds(1_800_000_000),
            timestamp_millis: 1_799_999_999_500,
            sequence,
            fingerprint: Fingerprint(7),
            // A body that consists of frame marks.
            json: StoredEvent::MARK
                .iter()
                .copied()
                .cycle()
                .take(length)
                .collect(),
        }
    }

    fn read(bytes: &[u8]) -> (Vec<i64>, u64, u64) {
        let mut frames = EventFrames::new(bytes);
        let mut sequences = Vec::new();
        while let Some(event) = frames.next_frame().unwrap() {
            sequences.push(event.sequence);
        }
        (sequences, frames.sound_end(), frames.damaged())
    }

    fn written(events: &[StoredEvent]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for event in events {
            write(event, &mut bytes);
        }
        bytes
    }

    #[test]
    fn frames_match_their_golden_bytes() {
        let mut small = event(3, 0);
        small.json = b"{}".to_vec();
        let bytes = written(std::slice::from_ref(&small));
        let golden = "5047650142000000307b410d01010101010101010101010101010101\
                      02020202020202020202020202020202\
                      00d2496b000000000c4e5c18a30100000300000000000000\
                      07000000000000007b7d";
        assert_eq!(data_encoding::HEXLOWER.encode(&bytes), golden);
        assert_eq!(
            EventFrames::new(&bytes[..]).next_frame().unwrap(),
            Some(small)
        );
    }

    #[test]
    fn frames_of_every_size_are_read_back() {
        let events: Vec<_> = [0, 1, 500, EVENT_BYTES_MAX, 3]
            .into_iter()
            .zip(0..)
            .map(|(length, sequence)| event(sequence, length))
            .collect();
        let bytes = written(&events);
        let mut frames = EventFrames::new(&bytes[..]);
        for event in &events {
            assert_eq!(frames.next_frame().unwrap().as_ref(), Some(event));
        }
        assert_eq!(frames.next_frame().unwrap(), None);
        assert_eq!(
            (frames.sound_end(), frames.damaged()),
            (bytes.len() as u64, 0)
        );
    }

    #[test]
    fn a_hole_keeps_the_offsets_of_later_events() {
        let longest = (HEAD_BYTES + StoredEvent::BODY_MAX) as u64;
        for gap in [
            0,
            12,
            13,
            100,
            longest,
            longest + 1,
            longest + 12,
            3 * longest,
        ] {
            let mut bytes = written(&[event(1, 9)]);
            let one = bytes.len() as u64;
            write_holes(gap, &mut bytes).unwrap();
            assert_eq!(bytes.len() as u64, one + gap);
            bytes.extend(written(&[event(2, 9)]));
            assert_eq!(read(&bytes), (vec![1, 2], 2 * one + gap, 0), "{gap}");
            let mut rest = EventFrames::resume(&bytes[usize::try_from(one).unwrap()..], one);
            assert_eq!(rest.next_frame().unwrap().unwrap().sequence, 2);
            assert_eq!((rest.sound_end(), rest.damaged()), (2 * one + gap, 0));
        }
        // Too short for a head.
        let mut bytes = Vec::new();
        write_holes(11, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 11]);
        // An event does not parse as a hole: its body is not zero.
        let mut bytes = written(&[event(1, 9)]);
        bytes[3] = StoredEvent::HOLE[3];
        assert_eq!(read(&bytes).0, Vec::<i64>::new());
        assert_eq!(read(&bytes).1, 0);
    }

    #[test]
    fn a_torn_end_is_not_read() {
        let whole = written(&[event(1, 40), event(2, 40)]);
        let one = whole.len() / 2;
        for length in one..whole.len() {
            assert_eq!(read(&whole[..length]), (vec![1], one as u64, 0));
        }
    }

    #[test]
    fn a_flipped_bit_loses_one_event() {
        let whole = written(&[event(1, 9), event(2, 9), event(3, 9)]);
        let one = whole.len() / 3;
        for bit in one * 8..2 * one * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let expected = (vec![1, 3], whole.len() as u64, one as u64);
            assert_eq!(read(&damaged), expected, "bit {bit}");
        }
    }
}
