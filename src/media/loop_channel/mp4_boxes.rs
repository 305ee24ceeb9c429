//! Parses the boxes of an MP4 file, as far as loop channels need them.

use super::error::{LoopError, unfit};

#[derive(Clone, Copy, Debug)]
pub(super) struct Mp4Box<'a> {
    pub(super) kind: [u8; 4],
    pub(super) at: usize,
    pub(super) whole: &'a [u8],
    /// The bytes after the header.
    pub(super) content: &'a [u8],
}

impl Mp4Box<'_> {
    pub(super) const fn header(&self) -> usize {
        self.whole.len() - self.content.len()
    }
}

pub(super) struct Boxes<'a> {
    bytes: &'a [u8],
    at: usize,
}

pub(super) enum Next<'a> {
    Whole(Mp4Box<'a>),
    /// Only the type is available: the content is cut off.
    Cut([u8; 4]),
    End,
}

impl<'a> Boxes<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The bytes may end in the middle of a box.
    pub(super) fn step(&mut self) -> Result<Next<'a>, LoopError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some((head, _)) = rest.split_first_chunk::<8>() else {
            return Ok(Next::End);
        };
        let [a, b, c, d, kind @ ..] = *head;
        let (header, length) = match u32::from_be_bytes([a, b, c, d]) {
            // A length of 1 announces a 64-bit length after the type.
            1 => match rest.get(8..).and_then(|rest| rest.first_chunk()) {
                Some(long) => (16, u64::from_be_bytes(*long)),
                None => return Ok(Next::Cut(kind)),
            },
            short => (8, u64::from(short)),
        };
        // A length of 0 means "up to the end of the file"; such a file cannot be cut into segments.
        let length = usize::try_from(length)
            .ok()
            .filter(|length| *length >= header);
        let length = length.ok_or_else(|| unfit("a box of the file has an impossible length"))?;
        let Some(whole) = rest.get(..length) else {
            return Ok(Next::Cut(kind));
        };
        let at = self.at;
        self.at += length;
        Ok(Next::Whole(Mp4Box {
            kind,
            at,
            whole,
            content: whole.get(header..).unwrap_or_default(),
        }))
    }

    pub(super) fn all(mut self) -> Result<Vec<Mp4Box<'a>>, LoopError> {
        let mut all = Vec::new();
        loop {
            match self.step()? {
                Next::Whole(one) => all.push(one),
                Next::End if self.at == self.bytes.len() => return Ok(all),
                Next::End | Next::Cut(_) => return Err(unfit("a box of the file is cut off")),
            }
        }
    }
}

pub(super) fn only<'a>(boxes: &[Mp4Box<'a>], kind: [u8; 4]) -> Result<Mp4Box<'a>, LoopError> {
    let mut found = boxes.iter().filter(|one| one.kind == kind);
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(*one),
        _ => Err(unfit(format!(
            "the file must have one box `{}` where a single track has it",
            kind.escape_ascii()
        ))),
    }
}

pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl Fields<'_> {
    pub(super) fn take<const N: usize>(&mut self) -> Result<[u8; N], LoopError> {
        let (bytes, rest) = self
            .0
            .split_first_chunk::<N>()
            .ok_or_else(|| unfit("a box of the file is too short"))?;
        self.0 = rest;
        Ok(*bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, LoopError> {
        self.take().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, LoopError> {
        self.take().map(u64::from_be_bytes)
    }

    /// Reads 32 bits, or 64 in version 1 of the box.
    pub(super) fn wide(&mut self, version: u8) -> Result<u64, LoopError> {
        match version {
            0 => self.u32().map(u64::from),
            _ => self.u64(),
        }
    }

    pub(super) fn version(&mut self) -> Result<(u8, u32), LoopError> {
        let [version, flags @ ..] = self.take::<4>()?;
        let [a, b, c] = flags;
        Ok((version, u32::from_be_bytes([0, a, b, c])))
    }
}
