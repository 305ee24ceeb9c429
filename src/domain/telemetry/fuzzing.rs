//! Fuzzing entry point for segment files, called by [`crate::fuzzing`].

use super::frame::{Frames, write};
use super::model::{EVENT_BYTES_MAX, Fingerprint, Sender, StoredEvent};
use crate::types::{PartnerId, UnixSeconds, UserId};

/// Reads arbitrary bytes as a segment, then the same bytes between two valid events: both events must be read back.
pub fn events(data: &[u8]) {
    let mut frames = Frames::new(data);
    let mut bytes = 0;
    while let Ok(Some(event)) = frames.next() {
        bytes += event.json.len();
    }
    assert!(bytes <= data.len(), "more events than bytes");
    let (end, damaged) = (frames.sound_end(), frames.damaged());
    assert!(
        damaged <= end && end <= data.len() as u64,
        "damage beyond the end"
    );

    let event = |sequence| StoredEvent {
        sender: Sender {
            user: UserId::from_bytes([1; 16]),
            partner: PartnerId::from_bytes([2; 16]),
        },
        received: UnixSeconds(sequence),
        timestamp_millis: sequence,
        sequence,
        fingerprint: Fingerprint(3),
        json: data.iter().copied().take(EVENT_BYTES_MAX).collect(),
    };
    let (first, last) = (event(i64::MIN), event(i64::MAX));
    let mut file = Vec::new();
    write(&first, &mut file);
    file.extend_from_slice(data);
    write(&last, &mut file);
    let mut frames = Frames::new(file.as_slice());
    let mut read = Vec::new();
    while let Ok(Some(event)) = frames.next() {
        read.push(event);
    }
    assert!(read.first() == Some(&first), "the event before is lost");
    // The bytes in between may begin a frame that includes the last event.
    let begins = |mark: &[u8]| mark == b"PGe\x01" || mark == b"PGe\x02";
    let swallowed = data.windows(4).any(begins);
    assert!(
        swallowed || read.get(1) == Some(&last),
        "the event behind is lost"
    );
}
