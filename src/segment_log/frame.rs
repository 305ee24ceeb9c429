//! Frame format of segment files: each body has a mark, a length and a checksum.
//!
//! Readers detect a torn end and damage, and resume at the next valid frame. Erased bodies can become holes of the same
//! length, so that all later offsets, which cursors rely on, stay valid.

pub use std::io::{self, Read, Write};
use std::marker::PhantomData;

/// Length of a frame head: mark, body length and checksum.
pub const HEAD_BYTES: usize = 12;

pub trait FrameBody: Sized {
    /// Start of a frame. It must contain a byte that no text of a body can contain, so that a body cannot forge a frame.
    const MARK: [u8; 4];
    /// Start of a hole. Its body is all zeros.
    const HOLE: [u8; 4];
    const BODY_MAX: usize;

    fn parse(body: &[u8]) -> Option<Self>;
}

pub fn write_frame<B: FrameBody>(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = begin(B::MARK, out);
    write(out);
    seal(start, out);
}

/// A gap shorter than a frame head is filled with zeros, which read as damage.
pub fn write_holes<B: FrameBody>(mut gap: u64, to: &mut impl Write) -> io::Result<()> {
    let longest = (HEAD_BYTES + B::BODY_MAX) as u64;
    while gap > 0 {
        let mut piece = gap.min(longest);
        // Leave enough bytes for the head of the next hole.
        if (1..HEAD_BYTES as u64).contains(&(gap - piece)) {
            piece -= HEAD_BYTES as u64;
        }
        let length = usize::try_from(piece).unwrap_or(0);
        let mut hole = Vec::with_capacity(length);
        // A shorter piece has no room for a head.
        if length >= HEAD_BYTES {
            let start = begin(B::HOLE, &mut hole);
            hole.resize(length, 0);
            seal(start, &mut hole);
        }
        hole.resize(length, 0);
        to.write_all(&hole)?;
        gap -= piece;
    }
    Ok(())
}

fn begin(mark: [u8; 4], out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&mark);
    // Placeholder for length and checksum, which `seal` fills in.
    out.extend_from_slice(&[0; HEAD_BYTES - 4]);
    start
}

fn seal(start: usize, out: &mut [u8]) {
    let Some((head, body)) = out
        .get_mut(start..)
        .and_then(|frame| frame.split_at_mut_checked(HEAD_BYTES))
    else {
        return;
    };
    // `parse` rejects this length.
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    let fields = [length, crc32fast::hash(body)].map(u32::to_le_bytes);
    for (to, from) in head.iter_mut().skip(4).zip(fields.as_flattened()) {
        *to = *from;
    }
}

/// The body is `None` for a hole.
fn parse<B: FrameBody>(bytes: &[u8]) -> Option<(Option<B>, usize)> {
    let (mark, rest) = bytes.split_first_chunk::<4>()?;
    let hole = *mark == B::HOLE;
    if !hole && *mark != B::MARK {
        return None;
    }
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (sum, rest) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    // A damaged length must not make the reader wait for megabytes.
    if length > B::BODY_MAX {
        return None;
    }
    let body = rest.get(..length)?;
    if crc32fast::hash(body) != u32::from_le_bytes(*sum) {
        return None;
    }
    if hole {
        // A hole with content is damage, since erased data must not survive in it.
        let empty = body.iter().all(|byte| *byte == 0);
        return empty.then_some((None, HEAD_BYTES + length));
    }
    Some((Some(B::parse(body)?), HEAD_BYTES + length))
}

pub struct Frames<B, R> {
    from: R,
    buffer: Vec<u8>,
    at: usize,
    /// Bytes of the file before the buffer.
    before: u64,
    ended: bool,
    sound_end: u64,
    damaged: u64,
    body: PhantomData<fn() -> B>,
}

impl<B: FrameBody, R: Read> Frames<B, R> {
    pub fn new(from: R) -> Self {
        Self::resume(from, 0)
    }

    pub fn resume(from: R, before: u64) -> Self {
        Self {
            from,
            buffer: Vec::new(),
            at: 0,
            before,
            ended: false,
            sound_end: before,
            damaged: 0,
            body: PhantomData,
        }
    }

    pub const fn sound_end(&self) -> u64 {
        self.sound_end
    }

    pub const fn damaged(&self) -> u64 {
        self.damaged
    }

    pub fn next_frame(&mut self) -> io::Result<Option<B>> {
        loop {
            self.fill()?;
            let rest = self.buffer.get(self.at..).unwrap_or_default();
            if rest.is_empty() {
                return Ok(None);
            }
            if let Some((body, length)) = parse::<B>(rest) {
                let begin = self.before + self.at as u64;
                // Counted only once a valid frame follows: bytes at the end may be a torn write.
                self.damaged += begin - self.sound_end;
                self.sound_end = begin + length as u64;
                self.at += length;
                match body {
                    Some(body) => return Ok(Some(body)),
                    None => continue,
                }
            }
            // Resume at the next byte that could begin a frame.
            let skip = rest.iter().skip(1).position(|byte| *byte == B::MARK[0]);
            self.at += skip.map_or(rest.len(), |skip| skip + 1);
        }
    }

    /// Buffers at least one whole frame, unless the file ends first.
    fn fill(&mut self) -> io::Result<()> {
        const PIECE_BYTES: u64 = 256 * 1024;
        while !self.ended && self.buffer.len() - self.at < HEAD_BYTES + B::BODY_MAX {
            // The consumed part is dropped, so that the buffer stays bounded.
            self.buffer.drain(..self.at);
            self.before += self.at as u64;
            self.at = 0;
            let read = self
                .from
                .by_ref()
                .take(PIECE_BYTES)
                .read_to_end(&mut self.buffer)?;
            self.ended = read == 0;
        }
        Ok(())
    }
}
