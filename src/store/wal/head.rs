//! The head of a segment file.

use super::frame::parse;
use crate::history::History;

const MAGIC: &[u8; 8] = b"PGLOG\x00\x00\x02";
/// Magic, length, number of the first frame, timeline, chain, four zeros, checksum.
pub(super) const HEAD_BYTES: usize = 64;
/// The head of versions before timelines has only magic and length.
const OLD_MAGIC: &[u8; 8] = b"PGLOG\x00\x00\x01";
const OLD_HEAD: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Length of the file at creation. The store never truncates a segment, so a shorter file is damage.
    pub(super) length: u64,
    pub(super) first: u64,
    /// The history up to the commit before the first frame.
    pub(super) history: History,
}

impl Head {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES);
        bytes.extend(MAGIC);
        bytes.extend(self.length.to_le_bytes());
        bytes.extend(self.first.to_le_bytes());
        bytes.extend(self.history.timeline);
        bytes.extend(self.history.chain);
        bytes.extend([0; 4]);
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (body, sum) = bytes.get(..HEAD_BYTES)?.split_last_chunk::<4>()?;
        if crc32fast::hash(body).to_le_bytes() != *sum {
            return None;
        }
        let (numbers, rest) = body.strip_prefix(MAGIC)?.split_first_chunk::<16>()?;
        let (numbers, ids) = (numbers.as_chunks::<8>().0, rest.as_chunks::<16>().0);
        let ([length, first], [timeline, chain]) = (numbers, ids) else {
            return None;
        };
        Some(Self {
            length: u64::from_le_bytes(*length),
            first: u64::from_le_bytes(*first),
            history: History {
                timeline: *timeline,
                chain: *chain,
            },
        })
    }
}

pub(super) fn begin(bytes: &[u8]) -> (Option<Head>, usize) {
    let head = Head::decode(bytes);
    let is_new = head.is_some()
        || bytes.starts_with(MAGIC)
        // A new head may be damaged while its frames are intact.
        || bytes.get(HEAD_BYTES..).is_some_and(|rest| parse(rest).is_some());
    (head, if is_new { HEAD_BYTES } else { OLD_HEAD })
}

pub(super) fn is_cut(bytes: &[u8]) -> bool {
    let length = match Head::decode(bytes) {
        Some(head) => Some(head.length),
        None => [MAGIC, OLD_MAGIC]
            .iter()
            .find_map(|magic| bytes.strip_prefix(magic.as_slice())?.first_chunk::<8>())
            .map(|length| u64::from_le_bytes(*length)),
    };
    length.is_some_and(|length| length > bytes.len() as u64)
}
