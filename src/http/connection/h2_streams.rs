//! Counts the streams of an HTTP/2 connection and the progress of their responses.
//!
//! A stream is open until the last byte of its response was written. A client with a tiny flow-control window
//! can stall a response inside hyper, where no other time-out would see it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};

use crate::response::body::{BodyError, ResponseBody};

/// Counters of a connection. They are shared, because each request runs in a separate task.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    begun: AtomicBool,
    open: AtomicU32,
    answered: AtomicU32,
    sent: AtomicU64,
    halfway: AtomicBool,
}

impl Streams {
    pub(crate) fn any_opened(&self) -> bool {
        self.begun.load(Relaxed)
    }

    pub(crate) fn open(&self) -> u32 {
        self.open.load(Relaxed)
    }

    pub(crate) fn answered(&self) -> u32 {
        self.answered.load(Relaxed)
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Relaxed)
    }

    pub(crate) fn on_sent(&self, bytes: u64) {
        self.sent.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn is_halfway(&self) -> bool {
        self.halfway.load(Relaxed)
    }

    pub(crate) fn halfway(&self, halfway: bool) {
        self.halfway.store(halfway, Relaxed);
    }
}

pub(crate) struct OpenStream {
    streams: Arc<Streams>,
    answered: AtomicBool,
}

impl OpenStream {
    pub(crate) fn new(streams: &Arc<Streams>) -> Self {
        streams.begun.store(true, Relaxed);
        streams.open.fetch_add(1, Relaxed);
        Self {
            streams: Arc::clone(streams),
            answered: AtomicBool::new(false),
        }
    }

    pub(crate) fn respond(self, body: ResponseBody) -> CountedBody {
        self.streams.answered.fetch_add(1, Relaxed);
        self.answered.store(true, Relaxed);
        CountedBody {
            body,
            open: Arc::new(self),
        }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.streams.open.fetch_sub(1, Relaxed);
        // A stream that was reset before its answer was not counted as answered.
        if self.answered.load(Relaxed) {
            self.streams.answered.fetch_sub(1, Relaxed);
        }
    }
}

pub(crate) struct CountedBody {
    body: ResponseBody,
    open: Arc<OpenStream>,
}

impl Body for CountedBody {
    type Data = HeldBytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<HeldBytes>, BodyError>>> {
        let this = self.get_mut();
        let frame = Pin::new(&mut this.body).poll_frame(cx);
        frame.map_ok(|frame| {
            frame.map_data(|bytes| HeldBytes {
                bytes,
                open: Arc::clone(&this.open),
            })
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Bytes that keep their stream open and report when they are written: hyper drops the body before the last
/// bytes are on the wire.
pub(crate) struct HeldBytes {
    bytes: Bytes,
    open: Arc<OpenStream>,
}

impl Buf for HeldBytes {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.open.streams.on_sent(count as u64);
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn a_stream_is_open_until_its_last_byte_is_written() {
        let streams = Arc::<Streams>::default();
        assert!(!streams.any_opened());
        let state = || (streams.open(), streams.answered(), streams.sent());
        drop(OpenStream::new(&streams));
        assert!(streams.any_opened());
        assert_eq!(state(), (0, 0, 0));
        let open = OpenStream::new(&streams);
        assert_eq!(state(), (1, 0, 0));
        let mut body = open.respond(Bytes::from_static(b"abc").into());
        let frame = body.frame().await.unwrap().unwrap();
        let Ok(mut bytes) = frame.into_data() else {
            panic!("no bytes");
        };
        assert!(body.is_end_stream());
        drop(body);
        bytes.advance(2);
        assert_eq!(state(), (1, 1, 2));
        drop(bytes);
        assert_eq!(state(), (0, 0, 2));
    }
}
