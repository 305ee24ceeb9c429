//! Bodies of responses: nothing, bytes, or a stream that tells the connection when it is done.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::task::JoinHandle;

use super::lanes::Awaited;
use super::pulse::Pulse;

/// Why a body breaks off; the client sees a closed connection.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// A body that is made as it is sent.
pub type ReplyStream = Pin<Box<dyn Body<Data = Bytes, Error = BodyError> + Send>>;

/// The body of a response.
pub enum ReplyBody {
    /// None.
    Empty,
    /// Bytes; `None` once they are taken.
    Full(Option<Bytes>),
    /// A stream, and the connection that is busy until it ends.
    Stream(ReplyStream, Option<Busy>),
}

/// Keeps a connection busy until it is dropped.
pub struct Busy(Arc<Pulse>);

impl Busy {
    /// The connection has ended its request when this is dropped.
    #[must_use]
    pub const fn new(pulse: Arc<Pulse>) -> Self {
        Self(pulse)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl From<Bytes> for ReplyBody {
    fn from(bytes: Bytes) -> Self {
        if bytes.is_empty() {
            Self::Empty
        } else {
            Self::Full(Some(bytes))
        }
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            Self::Empty => Poll::Ready(None),
            Self::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(body, _) => body.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty | Self::Full(None) => true,
            Self::Full(Some(_)) => false,
            Self::Stream(body, _) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty | Self::Full(None) => SizeHint::with_exact(0),
            Self::Full(Some(bytes)) => SizeHint::with_exact(bytes.len() as u64),
            Self::Stream(body, _) => body.size_hint(),
        }
    }
}

/// What is read of a file at once.
const CHUNK: u64 = 64 * 1024;

/// A part of a file. Each chunk is read on the pool of blocking threads when the client has taken
/// the one before, so that a slow client holds no thread.
pub struct FileBody {
    file: Arc<File>,
    at: u64,
    left: u64,
    reading: Option<JoinHandle<io::Result<Bytes>>>,
}

impl FileBody {
    /// `length` bytes of the file from `from` on.
    #[must_use]
    pub fn new(file: File, from: u64, length: u64) -> Self {
        Self {
            file: Arc::new(file),
            at: from,
            left: length,
            reading: None,
        }
    }
}

fn read_chunk(file: &File, at: u64, most: u64) -> io::Result<Bytes> {
    let mut buffer = vec![0; usize::try_from(most).unwrap_or_default()];
    file.read_exact_at(&mut buffer, at)?;
    Ok(buffer.into())
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        if this.left == 0 {
            return Poll::Ready(None);
        }
        let (at, most) = (this.at, this.left.min(CHUNK));
        let reading = this.reading.get_or_insert_with(|| {
            let file = Arc::clone(&this.file);
            tokio::task::spawn_blocking(move || read_chunk(&file, at, most))
        });
        let chunk = ready!(Pin::new(reading).poll(cx));
        this.reading = None;
        // A file that became shorter meanwhile breaks the body off: its length has been promised.
        let chunk = chunk??;
        this.at += most;
        this.left -= most;
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// A body that a lane makes in one piece.
pub struct LaneBody(Option<Awaited<Option<Bytes>>>);

impl LaneBody {
    /// What the lane will have made.
    #[must_use]
    pub const fn new(making: Awaited<Option<Bytes>>) -> Self {
        Self(Some(making))
    }
}

impl Body for LaneBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let Some(making) = &mut this.0 else {
            return Poll::Ready(None);
        };
        let made = ready!(Pin::new(making).poll(cx));
        this.0 = None;
        let made = made?.ok_or("the body could not be made")?;
        Poll::Ready(Some(Ok(Frame::data(made))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn a_part_of_a_file_is_sent_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        let content: Vec<u8> = (0..200_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        std::fs::write(&path, &content).unwrap();
        let body = FileBody::new(File::open(&path).unwrap(), 1_000, 150_000);
        assert_eq!(body.size_hint().exact(), Some(150_000));
        let sent = body.collect().await.unwrap().to_bytes();
        assert_eq!(sent, &content[1_000..151_000]);
        let beyond = FileBody::new(File::open(&path).unwrap(), 199_999, 2);
        assert!(beyond.collect().await.is_err());
    }
}
