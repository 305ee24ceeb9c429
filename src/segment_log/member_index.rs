//! Index at the end of a compressed segment: which of its members contain records of an owner.
//!
//! It is part of the file, behind the empty member that ends the segment, so that a rewritten file never has the index of an
//! older one. `zcat`, and versions without the index, read the segment as before: the index is a series of further empty
//! gzip members with it in their extra fields, one for each member of the segment and one that says where they begin. The
//! file ends with the empty member once more, as it does without an index.
//!
//! An index that is damaged in any place is as good as none: the segment is read whole. Owners are stored as a checksum of
//! their id. Two owners with the same one cost reading a member in vain.

use std::fs::File;
use std::io::{self, Write};

use super::member_header::{EMPTY_DEFLATE, END_BYTES};
use super::{append_checksum, read_at, without_checksum};

/// Magic, method, flags (`FEXTRA`), time, extra flags and system.
const GZIP: [u8; 10] = *b"\x1f\x8b\x08\x04\0\0\0\0\0\xff";
/// The id of the subfield, as in the members.
const SUBFIELD: [u8; 2] = *b"PG";
/// Starts of the subfields. The last byte is the version.
const MEMBER: [u8; 4] = *b"PGu\x01";
const FOOT: [u8; 4] = *b"PGi\x01";
/// Magic to the end of the subfield's length.
const HEAD_BYTES: usize = GZIP.len() + 2 + 4;
/// The empty content, its CRC-32 and its length.
const TAIL: [u8; 10] = [EMPTY_DEFLATE[0], EMPTY_DEFLATE[1], 0, 0, 0, 0, 0, 0, 0, 0];
/// Offset of the first entry and number of entries.
const FOOT_BYTES: usize = HEAD_BYTES + FOOT.len() + 8 + 4 + 4 + TAIL.len();
/// Owners of one member: the length of an extra field has 16 bits. Members of 1 MiB have fewer records.
const OWNERS_MAX: usize = 16_000;
/// Owners of all members. Later members are read for every owner: this bounds the memory of readers and writers.
const OWNERS_IN_ALL: usize = 4 * 1024 * 1024;
/// A longer index is not read.
const INDEX_MAX: u64 = 64 * 1024 * 1024;

/// Checksum of an owner's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerKey(u32);

impl OwnerKey {
    pub fn new(id: &[u8]) -> Self {
        // Stored, so it must never change.
        Self(crc32fast::hash(id))
    }
}

/// Lists the owners of the records in a member.
pub(crate) type OwnersOf = fn(&[u8]) -> Vec<OwnerKey>;

/// A member of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexedMember {
    /// Offset of its header in the file.
    pub at: u64,
    /// Offset of its content in the unpacked segment.
    pub place: u64,
    /// Sorted. `None`: it may contain records of every owner.
    pub(crate) owners: Option<Vec<OwnerKey>>,
}

impl IndexedMember {
    pub fn may_have(&self, owner: OwnerKey) -> bool {
        let listed = self.owners.as_ref();
        listed.is_none_or(|owners| owners.binary_search(&owner).is_ok())
    }
}

#[derive(Default)]
pub struct MemberIndex {
    members: Vec<IndexedMember>,
    listed: usize,
}

impl MemberIndex {
    pub fn add(&mut self, at: u64, place: u64, mut owners: Vec<OwnerKey>) {
        owners.sort_unstable();
        owners.dedup();
        self.listed += owners.len();
        let fits = owners.len() <= OWNERS_MAX && self.listed <= OWNERS_IN_ALL;
        let owners = fits.then_some(owners);
        self.members.push(IndexedMember { at, place, owners });
    }

    /// `at` is the offset of the index in the file.
    pub fn write(&self, at: u64, to: &mut impl Write) -> io::Result<()> {
        for member in &self.members {
            let mut body = member.at.to_le_bytes().to_vec();
            body.extend(member.place.to_le_bytes());
            body.push(u8::from(member.owners.is_none()));
            for owner in member.owners.iter().flatten() {
                body.extend(owner.0.to_le_bytes());
            }
            to.write_all(&entry(MEMBER, &body)?)?;
        }
        let mut body = at.to_le_bytes().to_vec();
        let count = u32::try_from(self.members.len()).map_err(io::Error::other)?;
        body.extend(count.to_le_bytes());
        to.write_all(&entry(FOOT, &body)?)
    }

    /// Returns the members of a file, or `None` if it has no index or a damaged one.
    pub fn read(file: &File) -> io::Result<Option<Vec<IndexedMember>>> {
        let length = file.metadata()?.len();
        let behind = (FOOT_BYTES + END_BYTES) as u64;
        let Some(foot_at) = length.checked_sub(behind) else {
            return Ok(None);
        };
        let mut foot = [0; FOOT_BYTES];
        read_at(file, &mut foot, foot_at)?;
        let Some((start, count)) = parse_foot(&foot) else {
            return Ok(None);
        };
        let bytes = foot_at.checked_sub(start).filter(|&all| all <= INDEX_MAX);
        let Some(Ok(bytes)) = bytes.map(usize::try_from) else {
            return Ok(None);
        };
        let mut index = vec![0; bytes];
        let read = read_at(file, &mut index, start)?;
        Ok(parse_members(index.get(..read).unwrap_or_default(), count))
    }
}

fn entry(mark: [u8; 4], body: &[u8]) -> io::Result<Vec<u8>> {
    let mut field = mark.to_vec();
    field.extend_from_slice(body);
    append_checksum(&mut field);
    let length = u16::try_from(field.len()).map_err(io::Error::other)?;
    let all = length.checked_add(4).ok_or(io::ErrorKind::InvalidInput)?;
    let mut bytes = GZIP.to_vec();
    bytes.extend(all.to_le_bytes());
    bytes.extend(SUBFIELD);
    bytes.extend(length.to_le_bytes());
    bytes.extend(field);
    bytes.extend(TAIL);
    Ok(bytes)
}

/// Returns the body of the first entry and the bytes behind it.
fn parse_entry(mark: [u8; 4], bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = bytes.strip_prefix(&GZIP)?;
    let (all, rest) = rest.split_first_chunk::<2>()?;
    let (length, rest) = rest.strip_prefix(&SUBFIELD)?.split_first_chunk::<2>()?;
    let length = u16::from_le_bytes(*length);
    if length.checked_add(4) != Some(u16::from_le_bytes(*all)) {
        return None;
    }
    let (field, rest) = rest.split_at_checked(length.into())?;
    let body = without_checksum(field)?.strip_prefix(&mark)?;
    Some((body, rest.strip_prefix(&TAIL)?))
}

fn parse_foot(bytes: &[u8]) -> Option<(u64, u32)> {
    let (body, _) = parse_entry(FOOT, bytes)?;
    let (start, count) = body.split_first_chunk::<8>()?;
    let count = u32::from_le_bytes(count.try_into().ok()?);
    Some((u64::from_le_bytes(*start), count))
}

fn parse_members(mut bytes: &[u8], count: u32) -> Option<Vec<IndexedMember>> {
    let mut members = Vec::new();
    while !bytes.is_empty() {
        let (body, rest) = parse_entry(MEMBER, bytes)?;
        bytes = rest;
        let (at, body) = body.split_first_chunk::<8>()?;
        let (place, body) = body.split_first_chunk::<8>()?;
        let (every, owners) = body.split_first()?;
        let (owners, []) = owners.as_chunks::<4>() else {
            return None;
        };
        let owners = owners
            .iter()
            .map(|owner| OwnerKey(u32::from_le_bytes(*owner)));
        members.push(IndexedMember {
            at: u64::from_le_bytes(*at),
            place: u64::from_le_bytes(*place),
            owners: (*every == 0).then(|| owners.collect()),
        });
    }
    // An entry that is missing would hide its member.
    (members.len() == usize::try_from(count).ok()?).then_some(members)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn sample() -> MemberIndex {
        let mut index = MemberIndex::default();
        index.add(0, 0, vec![OwnerKey(7), OwnerKey(3), OwnerKey(7)]);
        index.add(500, 1_000, vec![]);
        index
    }

    fn file(bytes: &[u8]) -> File {
        let file = tempfile::tempfile().unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, bytes, 0).unwrap();
        file
    }

    fn written(index: &MemberIndex) -> Vec<u8> {
        let mut bytes = b"members".to_vec();
        index.write(7, &mut bytes).unwrap();
        bytes.extend([0; END_BYTES]);
        bytes
    }

    #[test]
    fn an_index_matches_its_golden_bytes() {
        let mut bytes = Vec::new();
        sample().write(0x0102, &mut bytes).unwrap();
        let golden = include_str!("member_index.golden");
        let golden: String = golden.split_whitespace().collect();
        assert_eq!(data_encoding::HEXLOWER.encode(&bytes), golden);
        assert_eq!(OwnerKey::new(&[7; 16]), OwnerKey(0x6019_6c79));
    }

    #[test]
    fn an_index_is_read_back_and_unpacks_to_nothing() {
        let bytes = written(&sample());
        let members = MemberIndex::read(&file(&bytes)).unwrap().unwrap();
        assert_eq!(members, sample().members);
        assert!(members[0].may_have(OwnerKey(3)) && members[0].may_have(OwnerKey(7)));
        assert!(!members[0].may_have(OwnerKey(4)) && !members[1].may_have(OwnerKey(3)));
        let mut unpacked = Vec::new();
        let index = &bytes[7..bytes.len() - END_BYTES];
        flate2::read::MultiGzDecoder::new(index)
            .read_to_end(&mut unpacked)
            .unwrap();
        assert_eq!(unpacked, b"");
    }

    #[test]
    fn a_damaged_index_is_none() {
        let bytes = written(&sample());
        let end = bytes.len() - END_BYTES;
        for at in 7..end {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert_eq!(MemberIndex::read(&file(&damaged)).unwrap(), None, "{at}");
            let shorter = [&bytes[..at], &bytes[at + 1..]].concat();
            assert_eq!(MemberIndex::read(&file(&shorter)).unwrap(), None, "{at}");
        }
        // An entry that is cut out as a whole.
        let first = entry(MEMBER, &[0; 25]).unwrap().len();
        let mut without = bytes[..7].to_vec();
        without.extend(&bytes[7 + first..]);
        assert_eq!(MemberIndex::read(&file(&without)).unwrap(), None);
        for short in 0..bytes.len() {
            assert_eq!(MemberIndex::read(&file(&bytes[..short])).unwrap(), None);
        }
    }

    #[test]
    fn too_many_owners_are_every_owner() {
        let mut index = MemberIndex::default();
        let many = |count: u32| (0..count).map(OwnerKey).collect::<Vec<_>>();
        index.add(0, 0, many(16_001));
        index.add(1, 1, many(16_000));
        let members = MemberIndex::read(&file(&written(&index))).unwrap().unwrap();
        assert!(members[0].may_have(OwnerKey(99_999)));
        assert!(!members[1].may_have(OwnerKey(99_999)));
    }
}
