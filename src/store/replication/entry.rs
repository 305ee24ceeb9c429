//! An entry of the shared log, and its encoding.
//!
//! The system that stores the log is trusted to order entries and not to lose them, but not to return
//! every bit as it was written. An entry therefore has a checksum over all of its bytes, and contains
//! the chain digest of its predecessor, which the local WAL has as well.

use std::io::Read as _;

use flate2::Compression;
use flate2::read::{DeflateDecoder, DeflateEncoder};

use crate::history::History;
use crate::shared_log_error::{ENTRY_MAX, EntryError};

pub type FleetId = [u8; 16];
pub type MemberId = [u8; 16];

/// Maximum size of a batch before compression, so that a damaged or hostile entry cannot fill the memory.
pub const BATCH_MAX: usize = 16 * 1024 * 1024;
/// Compressing a smaller batch costs more time than it saves.
const DEFLATE_FROM: usize = 16 * 1024;

const MAGIC: &[u8; 4] = b"pge1";
const PLAIN: u8 = 0;
const DEFLATED: u8 = 1;
const CHECKSUM_BYTES: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    pub fleet: FleetId,
    pub number: u64,
    /// Epoch of the claim under which the entry was appended.
    pub epoch: u64,
    pub member: MemberId,
    /// Random for each entry. It distinguishes a member's own entry from another one with the same number.
    pub nonce: [u8; 16],
    pub format: u32,
    /// Timeline and chain digest of the predecessor.
    pub before: History,
    pub batch: Vec<u8>,
}

impl Entry {
    pub fn history(&self) -> History {
        self.before.after(self.number, &self.batch)
    }

    pub fn encode(&self) -> Result<Vec<u8>, EntryError> {
        if self.batch.len() > BATCH_MAX {
            return Err(EntryError::TooLarge);
        }
        let packed = (self.batch.len() >= DEFLATE_FROM)
            .then(|| deflate(&self.batch))
            .flatten()
            // Some data does not shrink, such as encrypted values.
            .filter(|packed| packed.len() < self.batch.len());
        let (form, body) = match &packed {
            Some(packed) => (DEFLATED, packed),
            None => (PLAIN, &self.batch),
        };
        let mut bytes = Vec::with_capacity(HEAD_BYTES + body.len() + CHECKSUM_BYTES);
        bytes.extend(MAGIC);
        bytes.extend(self.fleet);
        bytes.extend(self.number.to_le_bytes());
        bytes.extend(self.epoch.to_le_bytes());
        bytes.extend(self.member);
        bytes.extend(self.nonce);
        bytes.extend(self.format.to_le_bytes());
        bytes.extend(self.before.timeline);
        bytes.extend(self.before.chain);
        bytes.push(form);
        bytes.extend_from_slice(body);
        let sum = crc32fast::hash(&bytes);
        bytes.extend(sum.to_le_bytes());
        // The size is checked here and not by the server of the log, whose rejection would look like an outage.
        match bytes.len() > ENTRY_MAX {
            true => Err(EntryError::TooLarge),
            false => Ok(bytes),
        }
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, EntryError> {
        let (covered, sum) = bytes
            .split_last_chunk::<CHECKSUM_BYTES>()
            .ok_or(EntryError::Incomplete)?;
        // The checksum comes first: no field of a damaged entry is meaningful.
        if crc32fast::hash(covered) != u32::from_le_bytes(*sum) {
            return Err(EntryError::Checksum);
        }
        let mut rest = covered;
        // The checksum is correct, so another magic number means another version and not damage.
        if take(&mut rest)? != *MAGIC {
            return Err(EntryError::Newer);
        }
        let fleet = take(&mut rest)?;
        let number = u64::from_le_bytes(take(&mut rest)?);
        let epoch = u64::from_le_bytes(take(&mut rest)?);
        let member = take(&mut rest)?;
        let nonce = take(&mut rest)?;
        let format = u32::from_le_bytes(take(&mut rest)?);
        let before = History {
            timeline: take(&mut rest)?,
            chain: take(&mut rest)?,
        };
        let batch = match take::<1>(&mut rest)? {
            [PLAIN] => rest.to_vec(),
            [DEFLATED] => inflate(rest)?,
            _ => return Err(EntryError::Newer),
        };
        Ok(Self {
            fleet,
            number,
            epoch,
            member,
            nonce,
            format,
            before,
            batch,
        })
    }
}

/// Magic, fleet, number, epoch, member, nonce, format, timeline, chain, form.
const HEAD_BYTES: usize = 4 + 16 + 8 + 8 + 16 + 16 + 4 + 16 + 16 + 1;

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], EntryError> {
    let (head, tail) = rest
        .split_first_chunk::<N>()
        .ok_or(EntryError::Incomplete)?;
    *rest = tail;
    Ok(*head)
}

fn deflate(batch: &[u8]) -> Option<Vec<u8>> {
    let mut packed = Vec::new();
    // Reading from memory does not fail.
    let read = DeflateEncoder::new(batch, Compression::fast()).read_to_end(&mut packed);
    read.ok().map(|_| packed)
}

fn inflate(packed: &[u8]) -> Result<Vec<u8>, EntryError> {
    let mut batch = Vec::new();
    // One byte more than allowed is read, so that a longer batch is detected and not cut off.
    let most = BATCH_MAX as u64 + 1;
    DeflateDecoder::new(packed)
        .take(most)
        .read_to_end(&mut batch)
        .map_err(|_| EntryError::Incomplete)?;
    if batch.len() > BATCH_MAX {
        return Err(EntryError::TooLarge);
    }
    Ok(batch)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(batch: Vec<u8>) -> Entry {
        Entry {
            fleet: [1; 16],
            number: 7,
            epoch: 300,
            member: [2; 16],
            nonce: [3; 16],
            format: 1,
            before: History {
                timeline: [4; 16],
                chain: [5; 16],
            },
            batch,
        }
    }

    #[test]
    fn entry_bytes_are_stable() {
        let bytes = entry(b"xyz".to_vec()).encode().unwrap();
        assert_eq!(
            data_encoding::HEXLOWER.encode(&bytes),
            [
                "70676531",
                &"01".repeat(16),
                "0700000000000000",
                "2c01000000000000",
                &"02".repeat(16),
                &"03".repeat(16),
                "01000000",
                &"04".repeat(16),
                &"05".repeat(16),
                "00",
                "78797a",
                "1d0c3e60",
            ]
            .concat()
        );
        assert_eq!(Entry::decode(&bytes), Ok(entry(b"xyz".to_vec())));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_detected() {
        let bytes = entry(b"xyz".to_vec()).encode().unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                Entry::decode(&damaged),
                Err(EntryError::Checksum),
                "bit {bit}"
            );
        }
        for length in 0..bytes.len() {
            assert!(Entry::decode(&bytes[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn large_batch_is_deflated_and_an_oversized_one_is_refused() {
        let large = entry(vec![b'x'; BATCH_MAX]);
        let bytes = large.encode().unwrap();
        assert!(bytes.len() < BATCH_MAX / 100, "{}", bytes.len());
        assert_eq!(Entry::decode(&bytes), Ok(large));
        let oversized = entry(vec![b'x'; BATCH_MAX + 1]);
        assert_eq!(oversized.encode(), Err(EntryError::TooLarge));
        // Data without a pattern does not shrink.
        let mut state = 1_u32;
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        });
        let noise = entry(noise.take(ENTRY_MAX).collect());
        assert_eq!(noise.encode(), Err(EntryError::TooLarge));
        // A small entry that would unpack to gigabytes is rejected at the limit.
        let bomb = deflate(&vec![0; BATCH_MAX + 1]).unwrap();
        assert_eq!(inflate(&bomb), Err(EntryError::TooLarge));
    }
}
