//! Writes the [compressed form](super::packed) of a segment.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::DeflateEncoder;

use super::member_header::{HEAD_BYTES, Header, end_member};
use super::member_index::{MemberIndex, OwnerKey, OwnersOf};

/// Unpacked bytes after which a member ends. Members contain whole frames.
pub const MEMBER_BYTES: usize = 1024 * 1024;

pub struct Packer<W: Write> {
    to: W,
    /// Bytes written.
    at: u64,
    place: u64,
    index: Option<(OwnersOf, MemberIndex)>,
    /// Bytes of the next member, collected by [`Write`].
    collected: Vec<u8>,
}

impl<W: Write> Packer<W> {
    pub const fn new(to: W) -> Self {
        Self {
            to,
            at: 0,
            place: 0,
            index: None,
            collected: Vec::new(),
        }
    }

    /// Writes an index of the owners of records, too.
    pub fn indexed(to: W, owners: OwnersOf) -> Self {
        Self {
            index: Some((owners, MemberIndex::default())),
            ..Self::new(to)
        }
    }

    pub fn member(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some((owners, index)) = &mut self.index {
            // Taken from what is packed, so that the index cannot differ from what its readers find.
            index.add(self.at, self.place, owners(bytes));
        }
        // Space for the header, whose fields are known only after compression.
        let header = vec![0; HEAD_BYTES];
        let mut encoder = DeflateEncoder::new(header, Compression::default());
        encoder.write_all(bytes)?;
        self.write_member(bytes, encoder.finish()?)
    }

    /// Appends a member of another file; `false` if it does not belong here.
    pub(super) fn copy(
        &mut self,
        packed: &[u8],
        header: Header,
        owners: Vec<OwnerKey>,
    ) -> io::Result<bool> {
        if header.place != self.place {
            return Ok(false);
        }
        if let Some((_, index)) = &mut self.index {
            index.add(self.at, self.place, owners);
        }
        self.to.write_all(packed)?;
        self.at += packed.len() as u64;
        self.place = header.end();
        Ok(true)
    }

    /// `packed` starts with an empty header, which is filled in here.
    fn write_member(&mut self, bytes: &[u8], mut packed: Vec<u8>) -> io::Result<()> {
        let too_long = |_| io::Error::other("a gzip member of a compressed segment is too long");
        // The reader rejects longer members, so the writer must not produce them.
        let unpacked = u32::try_from(bytes.len()).map_err(too_long)?;
        packed.extend(crc32fast::hash(bytes).to_le_bytes());
        packed.extend(unpacked.to_le_bytes());
        let header = Header {
            place: self.place,
            unpacked,
            packed: u32::try_from(packed.len()).map_err(too_long)?,
        };
        if let Some(head) = packed.get_mut(..HEAD_BYTES) {
            head.copy_from_slice(&header.to_bytes());
        }
        self.to.write_all(&packed)?;
        self.at += packed.len() as u64;
        self.place = header.end();
        Ok(())
    }

    /// Unpacked bytes of the members so far.
    pub const fn place(&self) -> u64 {
        self.place
    }

    pub fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        // `zcat` ignores an empty member, and readers find the unpacked length at the end of the file.
        self.write_end()?;
        if let Some((_, index)) = self.index.take() {
            index.write(self.at, &mut self.to)?;
            // Versions before the index find the unpacked length here.
            self.write_end()?;
        }
        Ok(self.to)
    }

    fn write_end(&mut self) -> io::Result<()> {
        let end = end_member(self.place);
        self.at += end.len() as u64;
        self.to.write_all(&end)
    }
}

/// Every call must write whole frames, since members end between calls.
impl<W: Write> Write for Packer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.collected.extend_from_slice(bytes);
        // Only between two writes, so that no frame is divided.
        if self.collected.len() >= MEMBER_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let collected = std::mem::take(&mut self.collected);
        match collected.is_empty() {
            true => Ok(()),
            false => self.member(&collected),
        }
    }
}
