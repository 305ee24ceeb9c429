//! A buffered reader that counts lines and enforces limits.
//!
//! The XML parser buffers one piece of markup or text at a time. The limit on a piece keeps a file without an end
//! tag from exhausting the memory.

use std::io::{self, BufRead, Read};

use super::{PIECE_MAX, UNPACKED_MAX};

const BLOCK_BYTES: usize = 64 * 1024;

pub struct BoundedLines<R> {
    source: R,
    block: Box<[u8]>,
    at: usize,
    end: usize,
    line: u64,
    left: u64,
    piece_left: usize,
    exceeded: Option<&'static str>,
}

impl<R: Read> BoundedLines<R> {
    pub fn new(source: R) -> Self {
        Self::with_limit(source, UNPACKED_MAX)
    }

    fn with_limit(source: R, limit: u64) -> Self {
        Self {
            source,
            block: vec![0; BLOCK_BYTES].into_boxed_slice(),
            at: 0,
            end: 0,
            line: 1,
            left: limit,
            piece_left: PIECE_MAX,
            exceeded: None,
        }
    }

    pub fn line(&self) -> u64 {
        self.line
    }

    pub fn begin_piece(&mut self) {
        self.piece_left = PIECE_MAX;
    }

    pub fn exceeded(&self) -> Option<&'static str> {
        self.exceeded
    }

    fn exceed(&mut self, limit: &'static str) -> io::Error {
        self.exceeded = Some(limit);
        io::Error::other(limit)
    }
}

impl<R: Read> BufRead for BoundedLines<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        // Markup without an end would otherwise be buffered without bound.
        if self.piece_left == 0 {
            return Err(self.exceed("one element or text has over 1 MiB"));
        }
        if self.at == self.end {
            // Request one byte more than allowed, to distinguish the end of the file from the limit.
            let room = usize::try_from(self.left.saturating_add(1)).unwrap_or(BLOCK_BYTES);
            let want = self
                .block
                .get_mut(..room.min(BLOCK_BYTES))
                .unwrap_or_default();
            let got = self.source.read(want)?;
            if u64::try_from(got).unwrap_or(u64::MAX) > self.left {
                return Err(self.exceed("over 1 GiB unpacked"));
            }
            self.left -= u64::try_from(got).unwrap_or(0);
            self.at = 0;
            self.end = got;
        }
        let to = self.at.saturating_add(self.piece_left).min(self.end);
        Ok(self.block.get(self.at..to).unwrap_or_default())
    }

    fn consume(&mut self, amount: usize) {
        let to = self.at.saturating_add(amount).min(self.end);
        let used = self.block.get(self.at..to).unwrap_or_default();
        // Lines are counted as they are consumed, so errors name the line at which parsing stopped.
        let breaks = used.iter().filter(|byte| **byte == b'\n').count();
        self.line += u64::try_from(breaks).unwrap_or(0);
        self.piece_left = self.piece_left.saturating_sub(used.len());
        self.at = to;
    }
}

impl<R: Read> Read for BoundedLines<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut from = self.fill_buf()?;
        let got = from.read(into)?;
        self.consume(got);
        Ok(got)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_across_blocks() {
        let text = "x\n".repeat(100_000);
        let mut lines = BoundedLines::new(text.as_bytes());
        let mut out = Vec::new();
        loop {
            lines.begin_piece();
            let mut buffer = [0; 777];
            let got = lines.read(&mut buffer).unwrap();
            if got == 0 {
                break;
            }
            out.extend_from_slice(&buffer[..got]);
        }
        assert_eq!(out, text.as_bytes());
        assert_eq!(lines.line(), 100_001);
    }

    #[test]
    fn the_limits_hold_to_the_byte() {
        let read = |len: usize| {
            let mut lines = BoundedLines::with_limit(io::repeat(b'x').take(len as u64), 100_000);
            io::copy(&mut lines, &mut io::sink()).map_err(|_| lines.exceeded())
        };
        assert_eq!(read(100_000), Ok(100_000));
        assert_eq!(read(100_001), Err(Some("over 1 GiB unpacked")));
        let mut endless = BoundedLines::new(io::repeat(b'x'));
        let read = io::copy(&mut endless, &mut io::sink());
        assert!(read.is_err());
        assert_eq!(
            endless.exceeded(),
            Some("one element or text has over 1 MiB")
        );
    }
}
