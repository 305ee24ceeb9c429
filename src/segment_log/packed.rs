//! Compressed form of a finished segment: a series of gzip members, which `zcat` unpacks to the original bytes.
//!
//! Each member's header has an extra field with the member's offset in the unpacked segment and both of its lengths.
//! Readers skip from header to header. All positions that other modules store are offsets into the unpacked segment.
//! The last member is empty; its offset is the unpacked length. An [index](super::member_index) may follow it.
//!
//! A damaged member reads as zeros, which contain no frame. All other members stay readable.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom, Write};
use std::path::Path;

use flate2::bufread::DeflateDecoder;

use super::member_header::{END_BYTES, HEAD_BYTES, Header, MEMBER_MAX, TAIL_BYTES, end_member};
use super::member_index::{IndexedMember, MemberIndex, OwnerKey};
use super::packer::Packer;
use super::read_at;
use playgate_process::data_file::{at, open_with_reserve};

const ZEROS: [u8; 4096] = [0; 4096];

pub enum SegmentReader {
    Plain(File),
    Packed(Members),
}

impl SegmentReader {
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::open_at(path, 0)
    }

    pub fn open_at(path: &Path, from: u64) -> io::Result<Self> {
        let mut file = open_with_reserve(File::options().read(true), path)?;
        match SegmentForm::detect(&file).map_err(at("read", path))? {
            SegmentForm::Plain => {
                file.seek(SeekFrom::Start(from))?;
                Ok(Self::Plain(file))
            }
            SegmentForm::Packed => {
                let mut members = Members::new(file, path);
                members.skip_to(from)?;
                Ok(Self::Packed(members))
            }
        }
    }

    /// Reads the members that may contain records of the owner, one after the other; all if the file has no sound index.
    /// Also returns whether members are left out.
    pub fn open_for(path: &Path, owner: OwnerKey) -> io::Result<(Self, bool)> {
        let reader = Self::open(path)?;
        let Self::Packed(mut members) = reader else {
            return Ok((reader, false));
        };
        let selected = members.select(|member| member.may_have(owner))?;
        Ok((Self::Packed(members), selected))
    }
}

impl Read for SegmentReader {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.read(to),
            Self::Packed(members) => members.read(to),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentForm {
    Plain,
    Packed,
}

impl SegmentForm {
    pub fn detect(file: &File) -> io::Result<Self> {
        let mut head = [0; HEAD_BYTES];
        let read = read_at(file, &mut head, 0)?;
        let head = head.get(..read).unwrap_or_default();
        if Header::parse(head).is_some() {
            return Ok(Self::Packed);
        }
        if head.is_empty() || head.starts_with(b"PG") {
            return Ok(Self::Plain);
        }
        // The first bytes are damaged, so a member behind them decides. A plain segment has none: the texts of its
        // frames contain no control characters, and the gzip magic does.
        let found = find_header(file, 0, u64::from(MEMBER_MAX) * 2)?;
        Ok(found.map_or(Self::Plain, |_| Self::Packed))
    }
}

pub fn unpacked_length(path: &Path) -> io::Result<u64> {
    let file = open_with_reserve(File::options().read(true), path)?;
    let length = file.metadata()?.len();
    if SegmentForm::detect(&file).map_err(at("read", path))? == SegmentForm::Plain {
        return Ok(length);
    }
    let mut head = [0; HEAD_BYTES];
    read_at(&file, &mut head, length.saturating_sub(END_BYTES as u64))?;
    match Header::parse(&head) {
        Some(header) if header.unpacked == 0 => Ok(header.place),
        // The last member is missing or damaged: add up the others.
        _ => {
            let mut members = Members::new(file, path);
            members.skip_members(u64::MAX)?;
            Ok(members.place)
        }
    }
}

fn find_header(file: &File, from: u64, within: u64) -> io::Result<Option<u64>> {
    const PIECE_BYTES: usize = 256 * 1024;
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = from;
    while at.saturating_sub(from) < within {
        let read = read_at(file, &mut piece, at)?;
        let bytes = piece.get(..read).unwrap_or_default();
        let starts = bytes.windows(HEAD_BYTES).enumerate();
        let mut sound = starts.filter(|(_, bytes)| Header::parse(bytes).is_some());
        if let Some((found, _)) = sound.next() {
            return Ok(Some(at + found as u64));
        }
        if read < PIECE_BYTES {
            return Ok(None);
        }
        // Overlap the pieces: a header may cross their boundary.
        at += (PIECE_BYTES - HEAD_BYTES + 1) as u64;
    }
    Ok(None)
}

/// A member that was read; the last one of a segment is empty.
pub struct SoundMember {
    pub at: u64,
    pub place: u64,
    pub bytes: Vec<u8>,
    /// Offset of what follows in the file.
    pub next: u64,
}

pub struct Members {
    file: File,
    name: String,
    at: u64,
    /// Unpacked bytes before the next member.
    place: u64,
    /// Zeros still to be read in place of damaged members. They come before `buffer`.
    zeros: u64,
    buffer: Vec<u8>,
    used: usize,
    /// Offsets of the members to read, in the file and in the unpacked segment.
    selected: Option<VecDeque<(u64, u64)>>,
}

impl Members {
    pub fn new(file: File, path: &Path) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Self {
            name: name.into_owned(),
            file,
            at: 0,
            place: 0,
            zeros: 0,
            buffer: Vec::new(),
            used: 0,
            selected: None,
        }
    }

    /// The empty member that ends a file, where the members that were read end.
    pub fn end_bytes(&self) -> Vec<u8> {
        end_member(self.place)
    }

    /// Reads the header at an offset in the file; `None` unless it is one of a member with this offset in the segment.
    fn header_at(&self, at: u64, place: u64) -> io::Result<Option<Header>> {
        let mut head = [0; HEAD_BYTES];
        read_at(&self.file, &mut head, at)?;
        Ok(Header::parse(&head).filter(|header| header.place == place))
    }

    /// Limits reading to some members of the index; `false`, and no limit, if there is no sound one.
    fn select(&mut self, wanted: impl Fn(&IndexedMember) -> bool) -> io::Result<bool> {
        let Some(members) = MemberIndex::read(&self.file)? else {
            return Ok(false);
        };
        let mut selected = VecDeque::new();
        for member in members.iter().filter(|member| wanted(member)) {
            // Bytes that are missing or inserted move the members. Reading all of them finds them again.
            if self.header_at(member.at, member.place)?.is_none() {
                return Ok(false);
            }
            selected.push_back((member.at, member.place));
        }
        self.selected = Some(selected);
        Ok(true)
    }

    fn next_header(&mut self) -> io::Result<Option<Header>> {
        loop {
            let mut head = [0; HEAD_BYTES];
            let read = read_at(&self.file, &mut head, self.at)?;
            if read == 0 {
                return Ok(None);
            }
            // Offsets only grow: a member that goes back does not belong to this file.
            if let Some(header) = Header::parse(&head).filter(|header| header.place >= self.place) {
                return Ok(Some(header));
            }
            self.report_damage();
            match find_header(&self.file, self.at + 1, u64::MAX)? {
                Some(found) => self.at = found,
                None => return Ok(None),
            }
        }
    }

    /// Reads the next member and its offset in the file. An error of the kind `InvalidData` is damage.
    pub fn next_sound(&mut self) -> io::Result<SoundMember> {
        let header = self.header_at(self.at, self.place)?;
        let header = header.ok_or(io::ErrorKind::InvalidData)?;
        let bytes = self.unpack(header)?.ok_or(io::ErrorKind::InvalidData)?;
        let (at, place) = (self.at, self.place);
        self.at += u64::from(header.packed);
        self.place = header.end();
        Ok(SoundMember {
            at,
            place,
            bytes,
            next: self.at,
        })
    }

    /// Copies a segment. Members that may contain records of `wanted` owners pass through `change`, which gets their content
    /// with its offset and keeps its length; the others are copied as they are. Returns `false` if the segment has no sound
    /// index, or is damaged where it matters: the copy is incomplete then.
    pub fn copy_changed<W: Write>(
        &mut self,
        to: &mut Packer<W>,
        wanted: impl Fn(&IndexedMember) -> bool,
        mut change: impl FnMut(&[u8], u64) -> io::Result<Vec<u8>>,
    ) -> io::Result<bool> {
        let Some(members) = MemberIndex::read(&self.file)? else {
            return Ok(false);
        };
        for member in members {
            self.at = member.at;
            let Some(header) = self.header_at(member.at, member.place)? else {
                return Ok(false);
            };
            // Whose records are not listed may be anybody's.
            let copied = member.owners.as_ref().filter(|_| !wanted(&member));
            let Some(owners) = copied else {
                let Some(bytes) = self.unpack(header)? else {
                    return Ok(false);
                };
                to.member(&change(&bytes, member.place)?)?;
                continue;
            };
            let mut packed = vec![0; usize::try_from(header.packed).map_err(io::Error::other)?];
            let read = read_at(&self.file, &mut packed, member.at)?;
            if read < packed.len() || !to.copy(&packed, header, owners.clone())? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn report_damage(&self) {
        let (file, offset) = (&self.name, self.at);
        tracing::error!(
            file,
            offset,
            "a block of a compressed segment is damaged; its contents are lost, other blocks are intact"
        );
    }

    fn skip_members(&mut self, to: u64) -> io::Result<()> {
        while let Some(header) = self.next_header()?.filter(|header| header.end() <= to) {
            self.at += u64::from(header.packed);
            self.place = header.end();
            // The empty member ends the segment.
            if header.unpacked == 0 {
                break;
            }
        }
        Ok(())
    }

    fn skip_to(&mut self, to: u64) -> io::Result<()> {
        self.skip_members(to)?;
        // The target lies inside the next member, whose beginning is read and discarded.
        let rest = to.saturating_sub(self.place);
        io::copy(&mut self.by_ref().take(rest), &mut io::sink())?;
        Ok(())
    }

    fn advance(&mut self) -> io::Result<bool> {
        if let Some(selected) = &mut self.selected {
            match selected.pop_front() {
                Some(next) => (self.at, self.place) = next,
                None => return Ok(false),
            }
        }
        let Some(header) = self.next_header()? else {
            return Ok(false);
        };
        // Lost members read as zeros, so that offsets into the unpacked segment stay valid.
        self.zeros = header.place - self.place;
        self.place = header.end();
        self.used = 0;
        self.buffer = match self.unpack(header)? {
            Some(bytes) => {
                self.at += u64::from(header.packed);
                bytes
            }
            None => {
                self.report_damage();
                self.zeros = self.zeros.saturating_add(header.unpacked.into());
                // Bytes may be missing or inserted, so the packed length of a damaged member is not reliable.
                let from = self.at + HEAD_BYTES as u64;
                let next = find_header(&self.file, from, u64::MAX)?;
                self.at = match next {
                    Some(next) => next,
                    None => self.file.metadata()?.len(),
                };
                Vec::new()
            }
        };
        Ok(header.unpacked > 0 || self.zeros > 0)
    }

    fn unpack(&self, header: Header) -> io::Result<Option<Vec<u8>>> {
        let length = usize::try_from(header.packed).unwrap_or(0);
        let mut packed = vec![0; length];
        let read = read_at(&self.file, &mut packed, self.at)?;
        let body = packed.get(HEAD_BYTES..length - TAIL_BYTES);
        let Some((body, tail)) = body
            .zip(packed.last_chunk::<TAIL_BYTES>())
            .filter(|_| read == length)
        else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        // One byte more than announced, so that a member with too much content is noticed.
        let limit = u64::from(header.unpacked) + 1;
        let unpacked = DeflateDecoder::new(body)
            .take(limit)
            .read_to_end(&mut bytes);
        // The tail of a gzip member: CRC-32 and length of the content (RFC 1952).
        let mut expected = crc32fast::hash(&bytes).to_le_bytes().to_vec();
        expected.extend(header.unpacked.to_le_bytes());
        let sound = unpacked.is_ok_and(|length| length as u64 + 1 == limit) && *tail == *expected;
        Ok(sound.then_some(bytes))
    }
}

impl Read for Members {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.zeros > 0 {
                let most = usize::try_from(self.zeros).unwrap_or(usize::MAX);
                let read = ZEROS
                    .get(..most.min(ZEROS.len()))
                    .unwrap_or_default()
                    .read(to)?;
                self.zeros -= read as u64;
                return Ok(read);
            }
            let mut rest = self.buffer.get(self.used..).unwrap_or_default();
            if !rest.is_empty() || to.is_empty() {
                let read = rest.read(to)?;
                self.used += read;
                return Ok(read);
            }
            if !self.advance()? {
                return Ok(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns three members of different lengths in both forms.
    fn sample() -> (Vec<u8>, Vec<u8>) {
        let parts: Vec<Vec<u8>> = [300_u16, 40, 200]
            .iter()
            .zip(1_u8..)
            .map(|(length, seed)| {
                (0..*length)
                    .map(|at| seed + at.to_le_bytes()[0] % 60)
                    .collect()
            })
            .collect();
        let mut packer = Packer::new(Vec::new());
        for part in &parts {
            packer.member(part).unwrap();
        }
        (packer.finish().unwrap(), parts.concat())
    }

    fn read(bytes: &[u8], from: u64) -> Vec<u8> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let mut read = Vec::new();
        let reader = SegmentReader::open_at(file.path(), from);
        reader.unwrap().read_to_end(&mut read).unwrap();
        read
    }

    fn length(bytes: &[u8]) -> u64 {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        unpacked_length(file.path()).unwrap()
    }

    #[test]
    fn header_matches_its_golden_bytes() {
        let header = Header {
            place: 0x0102_0304,
            unpacked: 7,
            packed: 99,
        };
        let bytes = header.to_bytes();
        assert_eq!(
            data_encoding::HEXLOWER.encode(&bytes),
            "1f8b08040000000000ff1c005047180050477a010403020100000000070000006300000042bbf8a5"
        );
        assert_eq!(Header::parse(&bytes), Some(header));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::parse(&damaged), None, "bit {bit}");
        }
    }

    #[test]
    fn gzip_decoders_read_the_compressed_form() {
        let (packed, plain) = sample();
        let mut unpacked = Vec::new();
        let mut gzip = flate2::read::MultiGzDecoder::new(&packed[..]);
        gzip.read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, plain);
    }

    #[test]
    fn every_offset_can_be_read_from() {
        let (packed, plain) = sample();
        assert_eq!(length(&packed), plain.len() as u64);
        for from in 0..plain.len() + 2 {
            let expected = plain.get(from..).unwrap_or_default();
            assert_eq!(read(&packed, from as u64), expected, "{from}");
        }
    }

    #[test]
    fn damage_loses_one_member_and_keeps_all_offsets() {
        let (packed, plain) = sample();
        for at in 0..packed.len() {
            let mut damaged = packed.clone();
            damaged[at] ^= 0x55;
            let read = read(&damaged, 0);
            let same = |range: std::ops::Range<usize>| read.get(range.clone()) == plain.get(range);
            let sound = [same(0..300), same(300..340), same(340..540)];
            let lost = sound.iter().filter(|sound| !**sound).count();
            assert!(lost <= 1, "byte {at}: {sound:?}");
            let wrong = read
                .iter()
                .zip(&plain)
                .any(|(is, was)| *is != 0 && is != was);
            assert!(!wrong && read.len() <= plain.len(), "byte {at}");
        }
    }

    #[test]
    fn truncated_or_shifted_file_reads_its_intact_members() {
        let (packed, plain) = sample();
        for end in HEAD_BYTES..packed.len() {
            let cut = &packed[..end];
            let read = read(cut, 0);
            let wrong = read
                .iter()
                .zip(&plain)
                .any(|(is, was)| *is != 0 && is != was);
            assert!(!wrong && read.len() <= plain.len(), "{end}");
            assert!(length(cut) <= plain.len() as u64, "{end}");
        }
        let second = find_second(&packed);
        for at in [HEAD_BYTES + 3, second - 2] {
            let shorter = [&packed[..at], &packed[at + 1..]].concat();
            let longer = [&packed[..at], b"x", &packed[at..]].concat();
            for shifted in [shorter, longer] {
                let read = read(&shifted, 0);
                assert_eq!(read.len(), plain.len());
                assert!(read[..300].iter().all(|byte| *byte == 0));
                assert_eq!(read[300..], plain[300..]);
            }
        }
    }

    fn find_second(packed: &[u8]) -> usize {
        let header = Header::parse(packed).unwrap();
        usize::try_from(header.packed).unwrap()
    }

    #[test]
    fn plain_files_are_read_unchanged() {
        for plain in [
            &b""[..],
            b"PGe\x01abc",
            b"damaged",
            &[0x1f, 0x8b, 8, 4, 0, 0],
        ] {
            assert_eq!(read(plain, 0), plain);
            assert_eq!(length(plain), plain.len() as u64);
        }
    }
}
