//! Holds the metadata of a guide's rows in compressed form until their channel is imported.
//!
//! Guides mix their channels, so the whole guide must be in memory before any of it can be used, in addition to the
//! served schedule and the new one. Rows are encoded one after the other and deflated in pages of a few KiB, to a
//! tenth or a third of their size. The memory is released by channel while the new schedule grows.

use std::io::{self, Read as _, Write as _};
use std::vec;

use flate2::Compression;
use flate2::bufread::DeflateDecoder;
use flate2::write::DeflateEncoder;

use super::{DRAFT_MAX, GuideError};
use crate::schedule::model::Metadata;

/// Bytes before compression. Smaller pages compress worse; larger ones leave more uncompressed
/// bytes in each channel.
const PAGE_BYTES: usize = 8 * 1024;

pub(crate) type Text = (Option<String>, Metadata);

pub(crate) struct MetadataPacker {
    /// Shared by all channels, because its state is larger than many channels.
    deflate: DeflateEncoder<Vec<u8>>,
    row: Vec<u8>,
    held: usize,
}

impl Default for MetadataPacker {
    fn default() -> Self {
        Self {
            deflate: DeflateEncoder::new(Vec::new(), Compression::fast()),
            row: Vec::new(),
            held: 0,
        }
    }
}

#[derive(Default)]
pub struct Texts {
    pages: Vec<Box<[u8]>>,
    /// Rows of the last page, which is not full and not deflated yet.
    open: Vec<u8>,
}

impl std::fmt::Debug for Texts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Texts({} pages)", self.pages.len())
    }
}

impl MetadataPacker {
    pub(crate) fn push(&mut self, texts: &mut Texts, row: &Text) -> Result<(), GuideError> {
        self.row.clear();
        let config = bincode::config::standard();
        bincode::serde::encode_into_std_write(row, &mut self.row, config)
            // Encoding into memory fails only beyond its size limit.
            .map_err(|_| super::TOO_MUCH)?;
        if !texts.open.is_empty() && texts.open.len() + self.row.len() > PAGE_BYTES {
            let page = self.deflate(&texts.open);
            let page = page.map_err(|error| GuideError::Unreadable(error.to_string()))?;
            self.held += page.len();
            texts.pages.push(page);
            texts.open.clear();
        }
        let before = texts.open.capacity();
        texts.open.extend_from_slice(&self.row);
        // Capacity and not length: the allocator holds that much.
        self.held += texts.open.capacity() - before;
        if self.held > DRAFT_MAX {
            return Err(super::TOO_MUCH);
        }
        Ok(())
    }

    fn deflate(&mut self, plain: &[u8]) -> io::Result<Box<[u8]>> {
        self.deflate.write_all(plain)?;
        Ok(self.deflate.reset(Vec::new())?.into_boxed_slice())
    }
}

impl IntoIterator for Texts {
    type Item = Text;
    type IntoIter = Rows;

    fn into_iter(self) -> Rows {
        Rows {
            pages: self.pages.into_iter(),
            open: self.open,
            page: Vec::new(),
            at: 0,
        }
    }
}

/// Each page is freed once it is read.
pub struct Rows {
    pages: vec::IntoIter<Box<[u8]>>,
    open: Vec<u8>,
    page: Vec<u8>,
    at: usize,
}

impl Iterator for Rows {
    type Item = Text;

    fn next(&mut self) -> Option<Text> {
        if self.at == self.page.len() {
            self.at = 0;
            self.page.clear();
            match self.pages.next() {
                // Cannot fail: the page was deflated by `MetadataPacker`.
                Some(page) => DeflateDecoder::new(&*page)
                    .read_to_end(&mut self.page)
                    .ok()?,
                None => std::mem::replace(&mut self.page, std::mem::take(&mut self.open)).len(),
            };
        }
        let packed = self.page.get(self.at..)?;
        let decoded = bincode::serde::decode_from_slice(packed, bincode::config::standard());
        // Cannot fail either: the rows were encoded by `MetadataPacker`.
        let (row, length) = decoded.ok()?;
        self.at += length;
        Some(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: usize, length: usize) -> Text {
        let metadata = Metadata {
            title: format!("Title {number}").into(),
            description: Some(format!("{number} ").repeat(length).into()),
            ..Metadata::default()
        };
        (
            number.is_multiple_of(3).then(|| format!("id-{number}")),
            metadata,
        )
    }

    #[test]
    fn rows_are_read_back_in_order_for_any_page_contents() {
        for (count, length) in [(0, 0), (1, 0), (1, 10_000), (500, 3), (40, 2_000)] {
            let mut packer = MetadataPacker::default();
            let mut texts = Texts::default();
            for number in 0..count {
                packer.push(&mut texts, &row(number, length)).unwrap();
            }
            let all: Vec<Text> = texts.into_iter().collect();
            let expected: Vec<Text> = (0..count).map(|number| row(number, length)).collect();
            assert_eq!(all, expected);
        }
    }

    #[test]
    fn packed_size_is_limited() {
        let mut packer = MetadataPacker {
            held: DRAFT_MAX - 20_000,
            ..MetadataPacker::default()
        };
        let mut texts = Texts::default();
        let mut rows = (0..100_000).map(|number| packer.push(&mut texts, &row(number, 50)));
        assert!(rows.any(|pushed| pushed == Err(super::super::TOO_MUCH)));
    }
}
