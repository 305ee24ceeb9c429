//! A frame of a log or snapshot file: length, checksum, number, synced mark, payload, padding and
//! trailer, aligned to eight bytes.
//!
//! The trailer distinguishes a torn write from damage. A disk writes whole sectors, so an
//! interrupted write leaves at least one sector with the preallocated zeros. A frame with all its
//! sectors and a wrong checksum was written completely and has changed since.

use std::ops::Range;

use crate::error::StoreError;

const HEAD_BYTES: usize = 24;
/// The number again, with all bits inverted so that it is never zero.
const TRAILER_BYTES: usize = 8;
const SECTOR_BYTES: usize = 512;

pub(crate) struct Frame<'a> {
    pub(crate) number: u64,
    pub(crate) synced: u64,
    pub(crate) payload: &'a [u8],
}

impl Frame<'_> {
    pub(crate) const fn size(&self) -> usize {
        size(self.payload.len())
    }
}

pub(crate) const fn payload_at(length: usize) -> Range<usize> {
    HEAD_BYTES..HEAD_BYTES + length
}

const fn size(length: usize) -> usize {
    (HEAD_BYTES + length).next_multiple_of(8) + TRAILER_BYTES
}

pub(crate) fn frame(number: u64, synced: u64, payload: &[u8]) -> Result<Vec<u8>, StoreError> {
    let length = u32::try_from(payload.len()).map_err(|_| StoreError::TooLarge {
        table: "commit log".to_owned(),
    })?;
    let mut frame = Vec::with_capacity(size(payload.len()));
    frame.extend_from_slice(&length.to_le_bytes());
    // The checksum is filled in below.
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(&number.to_le_bytes());
    frame.extend_from_slice(&synced.to_le_bytes());
    frame.extend_from_slice(payload);
    // The checksum covers everything after itself.
    let sum = crc32fast::hash(frame.get(8..).unwrap_or_default());
    if let Some(field) = frame.get_mut(4..8) {
        field.copy_from_slice(&sum.to_le_bytes());
    }
    frame.resize(frame.len().next_multiple_of(8), 0);
    frame.extend_from_slice(&(!number).to_le_bytes());
    Ok(frame)
}

fn head(bytes: &[u8]) -> Option<(usize, u64)> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let number = rest.get(4..)?.first_chunk::<8>()?;
    Some((
        usize::try_from(u32::from_le_bytes(*length)).ok()?,
        u64::from_le_bytes(*number),
    ))
}

/// Returns the frame size according to the head, whose checksum is not verified.
pub(crate) fn announced_size(bytes: &[u8]) -> Option<usize> {
    head(bytes).map(|(length, _)| size(length))
}

pub(crate) fn parse(bytes: &[u8]) -> Option<Frame<'_>> {
    let (length, number) = head(bytes)?;
    let sum = bytes.get(4..8)?;
    let synced = bytes.get(16..)?.first_chunk::<8>()?;
    let payload = bytes.get(payload_at(length))?;
    // The unused rest of a segment is zeros, and no frame has the number 0.
    let sound = number > 0
        && crc32fast::hash(bytes.get(8..HEAD_BYTES + length)?).to_le_bytes() == *sum
        && bytes.get(size(length) - TRAILER_BYTES..size(length))? == (!number).to_le_bytes();
    sound.then_some(Frame {
        number,
        synced: u64::from_le_bytes(*synced),
        payload,
    })
}

/// Returns whether the unreadable frame `number` at offset `at` was once written completely.
pub(crate) fn was_whole(bytes: &[u8], at: usize, number: u64) -> bool {
    let Some((length, found)) = bytes.get(at..).and_then(head) else {
        return false;
    };
    let trailer = (!number).to_le_bytes();
    let rest = bytes.get(at + HEAD_BYTES..).unwrap_or_default();
    let (words, _) = rest.as_chunks::<TRAILER_BYTES>();
    // The head itself may be damaged, so the trailer is searched first.
    match words.iter().position(|word| *word == trailer) {
        Some(index) => !is_missing(bytes, at, at + HEAD_BYTES + (index + 1) * TRAILER_BYTES),
        None => found == number && !is_missing(bytes, at, at.saturating_add(size(length))),
    }
}

fn is_missing(bytes: &[u8], from: usize, to: usize) -> bool {
    let mut at = from;
    while at < to {
        let end = (at + 1).next_multiple_of(SECTOR_BYTES).min(to);
        // A sector that was never written still ends with its preallocated zeros.
        let Some(last) = bytes.get(at.max(end - 8)..end) else {
            // A length beyond the end of the file is damage and not a torn write.
            return false;
        };
        if last.iter().all(|byte| *byte == 0) {
            return true;
        }
        at = end;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_is_read_back_and_every_flipped_bit_is_detected() {
        let bytes = frame(7, 5, b"payload").unwrap();
        let read = parse(&bytes).unwrap();
        assert_eq!(
            (read.number, read.synced, read.payload),
            (7, 5, b"payload".as_slice())
        );
        assert_eq!(read.size(), bytes.len());
        let padding = HEAD_BYTES + 7..bytes.len() - TRAILER_BYTES;
        for bit in (0..bytes.len() * 8).filter(|bit| !padding.contains(&(bit / 8))) {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(parse(&bytes).is_none(), "bit {bit}");
            assert!(was_whole(&bytes, 0, 7), "bit {bit}");
        }
    }

    #[test]
    fn frame_with_a_missing_sector_is_torn() {
        for (start, length) in [(8, 100), (8, 3_000), (496, 40), (504, 2_000), (600, 900)] {
            let payload = vec![0xAB; length];
            let written = frame(9, 8, &payload).unwrap();
            let mut whole = vec![0; 8_192];
            whole[start..start + written.len()].copy_from_slice(&written);
            let end = start + written.len();
            for sector in start / SECTOR_BYTES..=(end - 1) / SECTOR_BYTES {
                let mut torn = whole.clone();
                torn[sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES].fill(0);
                assert!(!was_whole(&torn, start, 9), "{start} {length} {sector}");
            }
        }
        assert!(!was_whole(&[0; 512], 8, 9));
    }

    #[test]
    fn flipped_bit_in_unused_space_is_not_a_frame() {
        for bit in 0..512 * 8 {
            let mut bytes = [0; 512];
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(!was_whole(&bytes, 0, 2), "bit {bit}");
        }
    }
}
