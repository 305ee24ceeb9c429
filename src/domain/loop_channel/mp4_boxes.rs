//! The boxes of an MP4 file, as far as a loop looks into them.

use super::error::{LoopError, unfit};

/// One box.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mp4Box<'a> {
    /// Its type.
    pub(super) kind: [u8; 4],
    /// Where it begins among its siblings.
    pub(super) at: usize,
    /// All of it.
    pub(super) whole: &'a [u8],
    /// What follows its header.
    pub(super) content: &'a [u8],
}

impl Mp4Box<'_> {
    /// The length of its header.
    pub(super) const fn header(&self) -> usize {
        self.whole.len() - self.content.len()
    }
}

/// The boxes that follow one another.
pub(super) struct Boxes<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// What there is to read of a box.
pub(super) enum Next<'a> {
    /// All of it.
    Whole(Mp4Box<'a>),
    /// Its type, but not all of its content.
    Cut([u8; 4]),
    /// The bytes end.
    End,
}

impl<'a> Boxes<'a> {
    /// At the first one.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The next one of bytes that may end in the middle of a box.
    ///
    /// # Errors
    /// That its length cannot be.
    pub(super) fn step(&mut self) -> Result<Next<'a>, LoopError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some((head, _)) = rest.split_first_chunk::<8>() else {
            return Ok(Next::End);
        };
        let [a, b, c, d, kind @ ..] = *head;
        let (header, length) = match u32::from_be_bytes([a, b, c, d]) {
            1 => match rest.get(8..).and_then(|rest| rest.first_chunk()) {
                Some(long) => (16, u64::from_be_bytes(*long)),
                None => return Ok(Next::Cut(kind)),
            },
            short => (8, u64::from(short)),
        };
        // A length of 0 is a box up to the end of the file, which cannot be cut into segments.
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

    /// All of them, of bytes that end with the last one.
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

/// The only one of a type.
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

/// Numbers, one after the other.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl Fields<'_> {
    /// The next bytes.
    pub(super) fn take<const N: usize>(&mut self) -> Result<[u8; N], LoopError> {
        let (bytes, rest) = self
            .0
            .split_first_chunk::<N>()
            .ok_or_else(|| unfit("a box of the file is too short"))?;
        self.0 = rest;
        Ok(*bytes)
    }

    /// The next 32 bits.
    pub(super) fn u32(&mut self) -> Result<u32, LoopError> {
        self.take().map(u32::from_be_bytes)
    }

    /// The next 64 bits.
    pub(super) fn u64(&mut self) -> Result<u64, LoopError> {
        self.take().map(u64::from_be_bytes)
    }

    /// The next 32 bits, or 64 in a later version of the box.
    pub(super) fn wide(&mut self, version: u8) -> Result<u64, LoopError> {
        match version {
            0 => self.u32().map(u64::from),
            _ => self.u64(),
        }
    }

    /// Version and flags.
    pub(super) fn version(&mut self) -> Result<(u8, u32), LoopError> {
        let [version, flags @ ..] = self.take::<4>()?;
        let [a, b, c] = flags;
        Ok((version, u32::from_be_bytes([0, a, b, c])))
    }
}
