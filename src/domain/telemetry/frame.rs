//! Frame format of segment files: each event has a mark, a length and a checksum.
//!
//! Readers detect a torn end and damage, and resume at the next valid frame. Erased events become holes of the same
//! length, so that all later offsets, which cursors rely on, stay valid.
//! An event cannot forge a frame: the mark contains a byte that JSON always escapes.

use std::io::{self, Read, Write};

use super::model::{EVENT_BYTES_MAX, Fingerprint, Sender, StoredEvent};
use crate::types::{PartnerId, UnixSeconds, UserId};

const MARK: [u8; 4] = *b"PGe\x01";
/// Start of a hole. Its body is all zeros.
const HOLE: [u8; 4] = *b"PGe\x02";
/// Length of mark, body length and checksum.
const HEAD: usize = 12;
/// Length of the fields before the JSON text: user, partner, received, timestamp, sequence, fingerprint.
const FIELDS: usize = 16 + 16 + 8 + 8 + 8 + 8;
const BODY_MAX: usize = FIELDS + EVENT_BYTES_MAX;

pub(super) fn write(event: &StoredEvent, out: &mut Vec<u8>) {
    let start = begin(MARK, FIELDS + event.json.len(), out);
    out.extend_from_slice(event.sender.user.as_bytes());
    out.extend_from_slice(event.sender.partner.as_bytes());
    out.extend_from_slice(&event.received.0.to_le_bytes());
    out.extend_from_slice(&event.timestamp_millis.to_le_bytes());
    out.extend_from_slice(&event.sequence.to_le_bytes());
    out.extend_from_slice(&event.fingerprint.0.to_le_bytes());
    out.extend_from_slice(&event.json);
    seal(start, out);
}

pub(super) const fn length(event: &StoredEvent) -> u64 {
    (HEAD + FIELDS + event.json.len()) as u64
}

/// A gap shorter than a frame head is filled with zeros, which read as damage.
pub(super) fn write_holes(mut gap: u64, to: &mut impl Write) -> io::Result<()> {
    const LONGEST: u64 = (HEAD + BODY_MAX) as u64;
    while gap > 0 {
        let mut piece = gap.min(LONGEST);
        // Leave enough bytes for the head of the next hole.
        if (1..HEAD as u64).contains(&(gap - piece)) {
            piece -= HEAD as u64;
        }
        let length = usize::try_from(piece).unwrap_or(0);
        let mut hole = Vec::with_capacity(length);
        if let Some(body) = length.checked_sub(HEAD) {
            let start = begin(HOLE, body, &mut hole);
            hole.resize(length, 0);
            seal(start, &mut hole);
        }
        hole.resize(length, 0);
        to.write_all(&hole)?;
        gap -= piece;
    }
    Ok(())
}

fn begin(mark: [u8; 4], body: usize, out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&mark);
    // `parse` rejects such a length.
    let body = u32::try_from(body).unwrap_or(u32::MAX);
    out.extend_from_slice(&body.to_le_bytes());
    // The place of the checksum, which `seal` fills.
    out.extend_from_slice(&[0; 4]);
    start
}

fn seal(start: usize, out: &mut [u8]) {
    let sum = crc32fast::hash(out.get(start + HEAD..).unwrap_or_default());
    if let Some(field) = out.get_mut(start + 8..start + HEAD) {
        field.copy_from_slice(&sum.to_le_bytes());
    }
}

/// The event is `None` for a hole.
fn parse(bytes: &[u8]) -> Option<(Option<StoredEvent>, usize)> {
    let (mark, rest) = bytes.split_first_chunk::<4>()?;
    let hole = match *mark {
        MARK => false,
        HOLE => true,
        _ => return None,
    };
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (sum, rest) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    // A damaged length must not make the reader wait for megabytes.
    if length > BODY_MAX {
        return None;
    }
    let body = rest.get(..length)?;
    if crc32fast::hash(body) != u32::from_le_bytes(*sum) {
        return None;
    }
    if hole {
        // A hole with content is damage, since erased data must not survive in it.
        let empty = body.iter().all(|byte| *byte == 0);
        return empty.then_some((None, HEAD + length));
    }
    let (user, body) = body.split_first_chunk::<16>()?;
    let (partner, body) = body.split_first_chunk::<16>()?;
    let (received, body) = body.split_first_chunk::<8>()?;
    let (timestamp, body) = body.split_first_chunk::<8>()?;
    let (sequence, body) = body.split_first_chunk::<8>()?;
    let (fingerprint, json) = body.split_first_chunk::<8>()?;
    let event = StoredEvent {
        sender: Sender {
            user: UserId::from_bytes(*user),
            partner: PartnerId::from_bytes(*partner),
        },
        received: UnixSeconds(i64::from_le_bytes(*received)),
        timestamp_millis: i64::from_le_bytes(*timestamp),
        sequence: i64::from_le_bytes(*sequence),
        fingerprint: Fingerprint(u64::from_le_bytes(*fingerprint)),
        json: json.to_vec(),
    };
    Some((Some(event), HEAD + length))
}

pub(super) struct Frames<R> {
    from: R,
    buffer: Vec<u8>,
    at: usize,
    /// Bytes of the file before the buffer.
    before: u64,
    ended: bool,
    sound_end: u64,
    damaged: u64,
}

impl<R: Read> Frames<R> {
    pub(super) fn new(from: R) -> Self {
        Self::resume(from, 0)
    }

    pub(super) fn resume(from: R, before: u64) -> Self {
        Self {
            from,
            buffer: Vec::new(),
            at: 0,
            before,
            ended: false,
            sound_end: before,
            damaged: 0,
        }
    }

    pub(super) const fn sound_end(&self) -> u64 {
        self.sound_end
    }

    pub(super) const fn damaged(&self) -> u64 {
        self.damaged
    }

    pub(super) fn next(&mut self) -> io::Result<Option<StoredEvent>> {
        loop {
            self.fill()?;
            let rest = self.buffer.get(self.at..).unwrap_or_default();
            if rest.is_empty() {
                return Ok(None);
            }
            if let Some((event, length)) = parse(rest) {
                let begin = self.before + self.at as u64;
                // Counted only once a valid frame follows: bytes at the end may be a torn write.
                self.damaged += begin - self.sound_end;
                self.sound_end = begin + length as u64;
                self.at += length;
                match event {
                    Some(event) => return Ok(Some(event)),
                    None => continue,
                }
            }
            // Resume at the next byte that could begin a frame.
            let skip = rest.iter().skip(1).position(|byte| *byte == MARK[0]);
            self.at += skip.map_or(rest.len(), |skip| skip + 1);
        }
    }

    /// Buffers at least one whole frame, unless the file ends first.
    fn fill(&mut self) -> io::Result<()> {
        const PIECE: u64 = 256 * 1024;
        while !self.ended && self.buffer.len() - self.at < HEAD + BODY_MAX {
            // The consumed part is dropped, so that the buffer stays bounded.
            self.buffer.drain(..self.at);
            self.before += self.at as u64;
            self.at = 0;
            let read = self
                .from
                .by_ref()
                .take(PIECE)
                .read_to_end(&mut self.buffer)?;
            self.ended = read == 0;
        }
        Ok(())
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
            json: MARK.iter().copied().cycle().take(length).collect(),
        }
    }

    fn read(bytes: &[u8]) -> (Vec<i64>, u64, u64) {
        let mut frames = Frames::new(bytes);
        let mut sequences = Vec::new();
        while let Some(event) = frames.next().unwrap() {
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
        assert_eq!(Frames::new(&bytes[..]).next().unwrap(), Some(small));
    }

    #[test]
    fn frames_of_every_size_are_read_back() {
        let events: Vec<_> = [0, 1, 500, EVENT_BYTES_MAX, 3]
            .into_iter()
            .zip(0..)
            .map(|(length, sequence)| event(sequence, length))
            .collect();
        let bytes = written(&events);
        let mut frames = Frames::new(&bytes[..]);
        for event in &events {
            assert_eq!(frames.next().unwrap().as_ref(), Some(event));
        }
        assert_eq!(frames.next().unwrap(), None);
        assert_eq!(
            (frames.sound_end(), frames.damaged()),
            (bytes.len() as u64, 0)
        );
    }

    #[test]
    fn a_hole_keeps_the_offsets_of_later_events() {
        let longest = (HEAD + BODY_MAX) as u64;
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
            let mut rest = Frames::resume(&bytes[usize::try_from(one).unwrap()..], one);
            assert_eq!(rest.next().unwrap().unwrap().sequence, 2);
            assert_eq!((rest.sound_end(), rest.damaged()), (2 * one + gap, 0));
        }
        // Too short for a head.
        let mut bytes = Vec::new();
        write_holes(11, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 11]);
        // An event does not parse as a hole: its body is not zero.
        let mut bytes = written(&[event(1, 9)]);
        bytes[3] = HOLE[3];
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
