//! Headers of the gzip members of a [compressed segment](super::packed).

use super::{append_checksum, without_checksum};

/// A header with a larger length is damaged. The limit bounds the memory of a reader, which holds one member.
pub(super) const MEMBER_MAX: u32 = 4 * 1024 * 1024;
/// Magic, method, flags (`FEXTRA`), time, extra flags and system; the length of the extra field;
/// the name and length of its only subfield. The last byte of the magic is the version.
const PREFIX: [u8; 20] = *b"\x1f\x8b\x08\x04\0\0\0\0\0\xff\x1c\0PG\x18\0PGz\x01";
/// The prefix, then offset, unpacked length, packed length and a checksum of all of these.
pub(super) const HEAD_BYTES: usize = PREFIX.len() + 8 + 4 + 4 + 4;
/// The CRC-32 and length that end each gzip member.
pub(super) const TAIL_BYTES: usize = 8;
/// Deflate stream of an empty input: one final block with the fixed code.
pub(super) const EMPTY_DEFLATE: [u8; 2] = [3, 0];
/// The empty member that ends a file.
pub(super) const END_BYTES: usize = HEAD_BYTES + EMPTY_DEFLATE.len() + TAIL_BYTES;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Offset in the unpacked segment.
    pub(super) place: u64,
    pub(super) unpacked: u32,
    pub(super) packed: u32,
}

impl Header {
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = PREFIX.to_vec();
        bytes.extend(self.place.to_le_bytes());
        bytes.extend(self.unpacked.to_le_bytes());
        bytes.extend(self.packed.to_le_bytes());
        append_checksum(&mut bytes);
        bytes
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        // The checksum distinguishes a header from the same bytes inside a member.
        let rest = without_checksum(bytes.get(..HEAD_BYTES)?)?.strip_prefix(&PREFIX)?;
        let (place, rest) = rest.split_first_chunk::<8>()?;
        let (unpacked, rest) = rest.split_first_chunk::<4>()?;
        let (packed, _) = rest.split_first_chunk::<4>()?;
        let header = Self {
            place: u64::from_le_bytes(*place),
            unpacked: u32::from_le_bytes(*unpacked),
            packed: u32::from_le_bytes(*packed),
        };
        let smallest = u32::try_from(HEAD_BYTES + TAIL_BYTES).unwrap_or(u32::MAX);
        let fits =
            header.unpacked <= MEMBER_MAX && (smallest..=MEMBER_MAX).contains(&header.packed);
        fits.then_some(header)
    }

    pub(super) const fn end(self) -> u64 {
        self.place.saturating_add(self.unpacked as u64)
    }
}

/// The empty member that ends a segment of a length.
pub(super) fn end_member(place: u64) -> Vec<u8> {
    let header = Header {
        place,
        unpacked: 0,
        packed: u32::try_from(END_BYTES).unwrap_or(0),
    };
    let mut member = header.to_bytes();
    member.extend(EMPTY_DEFLATE);
    // CRC-32 and length of nothing.
    member.extend([0; TAIL_BYTES]);
    member
}
