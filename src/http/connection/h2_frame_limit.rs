//! Limits the rate of HTTP/2 frames from a client. hyper answers or drops each control frame of a flood, and
//! has no time-out for an unfinished frame.
//!
//! Only the nine-byte frame headers are parsed; hyper validates the frames.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use crate::connection::h2_streams::Streams;
use crate::connection::io_observer::ReadObserver;
use playgate_config::limits::{H2_FRAMES_A_SECOND, H2_FRAMES_BURST, HEADER_BLOCK_PARSER_MAX};

const PREFACE_BYTES: usize = 24;

// Frame types, and the flag that ends a header block.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// Extra frames that each request allows: a small body, window updates for stream and connection, and a
/// reset.
const FRAMES_PER_REQUEST: u32 = 4;
/// Body bytes, in either direction, that pay for one frame.
const BYTES_PER_FRAME: u64 = 256;

pub(crate) struct FrameLimit {
    streams: Arc<Streams>,
    head: [u8; 9],
    have: usize,
    /// Payload bytes to skip before the next frame header.
    left: usize,
    /// Size of the header block that is being received, if any.
    block: Option<usize>,
    /// The current frame is DATA. Bodies have a separate time-out.
    body: bool,
    /// Frames that the client may still send.
    allowed: u32,
    filled: Instant,
    clock: fn() -> Instant,
    /// Response bytes that were already converted into allowed frames.
    sent: u64,
}

impl FrameLimit {
    pub(crate) fn new(streams: Arc<Streams>) -> Self {
        Self::with_clock(streams, Instant::now)
    }

    fn with_clock(streams: Arc<Streams>, clock: fn() -> Instant) -> Self {
        Self {
            streams,
            head: [0; 9],
            have: 0,
            // RFC 9113, 3.4: the client preface comes before the first frame.
            left: PREFACE_BYTES,
            block: None,
            body: false,
            allowed: H2_FRAMES_BURST,
            filled: clock(),
            clock,
            sent: 0,
        }
    }

    fn frame(&mut self) -> io::Result<()> {
        // RFC 9113, 4.1: three bytes of length, type, flags, four bytes of stream id.
        let [a, b, c, kind, flags, ..] = self.head;
        let [zero, length @ ..] = [0, a, b, c].map(usize::from);
        self.left = length.iter().fold(zero, |sum, byte| (sum << 8) | byte);
        self.have = 0;
        self.body = kind == DATA;
        match kind {
            HEADERS => self.allow(FRAMES_PER_REQUEST),
            // Large DATA frames are bounded by flow control. Tiny ones cost as much work as control frames.
            DATA if self.left as u64 >= BYTES_PER_FRAME => {}
            _ => self.spend()?,
        }
        if matches!(kind, HEADERS | CONTINUATION) {
            let block = self.block.unwrap_or_default() + self.left;
            // Bounds a header block that a client spreads over endless CONTINUATION frames.
            if block > HEADER_BLOCK_PARSER_MAX {
                return Err(io::Error::other("header block too large"));
            }
            self.block = (flags & END_HEADERS == 0).then_some(block);
        }
        Ok(())
    }

    fn allow(&mut self, more: u32) {
        // Allowance above one burst is not saved: a connection could idle for an hour and then flood.
        self.allowed = self.allowed.saturating_add(more).min(H2_FRAMES_BURST);
    }

    fn spend(&mut self) -> io::Result<()> {
        // The clock is read only when the allowance is used up, not for each frame.
        if self.allowed == 0 {
            self.refill((self.clock)());
        }
        self.allowed = self
            .allowed
            .checked_sub(1)
            .ok_or_else(|| io::Error::other("too many HTTP/2 frames"))?;
        Ok(())
    }

    fn refill(&mut self, now: Instant) {
        let millis = now.duration_since(self.filled).as_millis();
        let by_time = millis.saturating_mul(u128::from(H2_FRAMES_A_SECOND)) / 1_000;
        // With less than one frame earned, the time stays in `filled`: resetting it would lose the fraction at each
        // call.
        if by_time > 0 {
            self.filled = now;
        }
        // A client that downloads sends window updates in proportion.
        let by_bytes = (self.streams.sent() - self.sent) / BYTES_PER_FRAME;
        self.sent += by_bytes * BYTES_PER_FRAME;
        self.allow(u32::try_from(by_time).unwrap_or(u32::MAX));
        self.allow(u32::try_from(by_bytes).unwrap_or(u32::MAX));
    }
}

impl ReadObserver for FrameLimit {
    fn on_read(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        loop {
            let passing = self.left.min(bytes.len());
            self.left -= passing;
            bytes = bytes.get(passing..).unwrap_or_default();
            let Some((byte, rest)) = bytes.split_first() else {
                break;
            };
            bytes = rest;
            if let Some(place) = self.head.get_mut(self.have) {
                *place = *byte;
            }
            self.have += 1;
            if self.have == self.head.len() {
                self.frame()?;
            }
        }
        // A partial frame or header block must be completed within the head time-out. A DATA payload has the time-out
        // of bodies.
        let inside = self.have > 0 || (self.left > 0 && !self.body);
        self.streams.halfway(inside || self.block.is_some());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;
    use std::time::Duration;

    use super::*;

    fn frame(kind: u8, flags: u8, length: usize) -> Vec<u8> {
        let mut bytes = u32::try_from(length).unwrap().to_be_bytes()[1..].to_vec();
        bytes.extend([kind, flags, 0, 0, 0, 1]);
        bytes.resize(9 + length, 0);
        bytes
    }

    /// A clock that stands still.
    fn now() -> Instant {
        static NOW: LazyLock<Instant> = LazyLock::new(Instant::now);
        *NOW
    }

    fn frames() -> (FrameLimit, Arc<Streams>) {
        let streams = Arc::<Streams>::default();
        let mut frames = FrameLimit::with_clock(Arc::clone(&streams), now);
        frames.on_read(&[0; PREFACE_BYTES]).unwrap();
        (frames, streams)
    }

    /// Returns how many copies of the input pass before the connection ends; `None` if `most` copies pass.
    fn end_after(given: &[u8], most: usize) -> Option<usize> {
        let (mut frames, _) = frames();
        (0..most).find(|_| frames.on_read(given).is_err())
    }

    #[test]
    fn floods_of_control_frames_end() {
        let burst = H2_FRAMES_BURST as usize;
        const PING: u8 = 6;
        for (kind, length) in [
            (PING, 8),
            (4, 6),
            (2, 5),
            (8, 4),
            (3, 4),
            (DATA, 0),
            (DATA, 255),
        ] {
            let after = end_after(&frame(kind, 0, length), burst * 3);
            let after = after.unwrap();
            assert_eq!(after, burst, "{kind}");
        }
        for (kind, length) in [(HEADERS, 20), (DATA, 256), (DATA, 16_384)] {
            let after = end_after(&frame(kind, END_HEADERS, length), burst * 3);
            assert_eq!(after, None, "{kind}");
        }
        // Frames that belong to requests never exceed the limit.
        let mut usual = frame(HEADERS, END_HEADERS, 20);
        for kind in [DATA, 8, 8, 3] {
            usual.extend(frame(kind, 0, 4));
        }
        assert_eq!(end_after(&usual, burst * 3), None);
        usual.extend(frame(PING, 0, 8));
        assert!(end_after(&usual, burst * 3).is_some());
    }

    #[test]
    fn time_and_answers_allow_more() {
        let (mut frames, streams) = frames();
        let ping = frame(6, 0, 8);
        let mut count = |passed: u64| {
            frames.filled = now() - Duration::from_secs(passed);
            let came = (0..10_000)
                .take_while(|_| frames.on_read(&ping).is_ok())
                .count();
            // A real connection ends with its first error; the test continues after the frame.
            frames.left = 0;
            came
        };
        assert_eq!(count(0), H2_FRAMES_BURST as usize);
        assert_eq!(count(2), 2 * H2_FRAMES_A_SECOND as usize);
        streams.on_sent(100 * BYTES_PER_FRAME);
        assert_eq!(count(0), 100);
        assert_eq!(count(0), 0);
    }

    #[test]
    fn header_blocks_are_limited_in_size_and_time() {
        let (mut counted, streams) = frames();
        assert!(!streams.is_halfway());
        for byte in frame(HEADERS, 0, 5) {
            counted.on_read(&[byte]).unwrap();
            assert!(streams.is_halfway());
        }
        counted
            .on_read(&frame(CONTINUATION, END_HEADERS, 5))
            .unwrap();
        assert!(!streams.is_halfway());
        // The body time-out covers DATA frames.
        counted.on_read(&frame(DATA, 0, 300)[..20]).unwrap();
        assert!(!streams.is_halfway());

        let (mut counted, _) = frames();
        counted.on_read(&frame(HEADERS, 0, 16_384)).unwrap();
        let sizes =
            (0..10).take_while(|_| counted.on_read(&frame(CONTINUATION, 0, 16_384)).is_ok());
        assert!((sizes.count() + 1) * 16_384 <= HEADER_BLOCK_PARSER_MAX);
    }
}
