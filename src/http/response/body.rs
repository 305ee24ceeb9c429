//! Response bodies: empty, bytes, or a stream that reports its end to the connection.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::task::JoinHandle;

use crate::connection_state::InFlightGuard;
use playgate_process::worker_pool::pool::Awaited;

pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// The error by which hyper drops a connection without an answer.
#[derive(Debug, thiserror::Error)]
#[error("a fault of the lab cut the response")]
pub(crate) struct ConnectionCut;

pub(crate) type ResponseStream = Pin<Box<dyn Body<Data = Bytes, Error = BodyError> + Send>>;

pub(crate) enum ResponseBody {
    Empty,
    Full(Option<Bytes>),
    /// A stream, with the guard that marks the connection as busy until it ends.
    Stream(ResponseStream, Option<InFlightGuard>),
}

impl From<Bytes> for ResponseBody {
    fn from(bytes: Bytes) -> Self {
        if bytes.is_empty() {
            Self::Empty
        } else {
            Self::Full(Some(bytes))
        }
    }
}

impl Body for ResponseBody {
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

/// Minimum size of a chunk, except for the last one, in bytes.
pub const PIECE_BYTES: usize = 64 * 1024;

pub type BodyPiece = Result<Bytes, BodyError>;

/// A body that is produced chunk by chunk on the blocking thread pool. Each chunk is produced after the
/// client has taken the previous one, so a slow client holds neither a thread nor memory.
pub struct ChunkStream<P> {
    /// `None` while a chunk is being produced, and at the end.
    maker: Option<P>,
    making: Option<JoinHandle<(P, Option<BodyPiece>)>>,
    left: Option<u64>,
}

impl<P: Iterator<Item = BodyPiece>> ChunkStream<P> {
    pub const fn new(maker: P) -> Self {
        Self {
            maker: Some(maker),
            making: None,
            left: None,
        }
    }
}

impl ChunkStream<FilePart> {
    pub(crate) fn from_file(file: File, from: u64, length: u64) -> Self {
        let part = FilePart {
            file,
            at: from,
            left: length,
        };
        Self {
            left: Some(length),
            ..Self::new(part)
        }
    }
}

impl<P: Iterator<Item = BodyPiece> + Send + Unpin + 'static> Body for ChunkStream<P> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        if this.is_end_stream() {
            return Poll::Ready(None);
        }
        if let Some(mut maker) = this.maker.take() {
            // Runs on a blocking thread, because making a piece may read files.
            this.making = Some(tokio::task::spawn_blocking(move || {
                let piece = maker.next();
                (maker, piece)
            }));
        }
        let Some(making) = &mut this.making else {
            return Poll::Ready(None);
        };
        let made = ready!(Pin::new(making).poll(cx));
        this.making = None;
        let (maker, Some(piece)) = made? else {
            return Poll::Ready(None);
        };
        let piece = piece?;
        // The maker waits until this piece is taken: one piece at a time is in memory, and a client that stops reading
        // stops it.
        this.maker = Some(maker);
        this.left = this
            .left
            .map(|left| left.saturating_sub(piece.len() as u64));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        // Decided by the length where it is known: hyper then ends the response with the last byte, without another
        // poll.
        self.left == Some(0) || (self.maker.is_none() && self.making.is_none())
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::new, SizeHint::with_exact)
    }
}

pub(crate) struct FilePart {
    file: File,
    at: u64,
    left: u64,
}

impl Iterator for FilePart {
    type Item = BodyPiece;

    fn next(&mut self) -> Option<BodyPiece> {
        let length = self.left.min(PIECE_BYTES as u64);
        if length == 0 {
            return None;
        }
        let mut buffer = vec![0; usize::try_from(length).unwrap_or_default()];
        // If the file was truncated, the body is aborted: `Content-Length` was already sent.
        if let Err(error) = self.file.read_exact_at(&mut buffer, self.at) {
            return Some(Err(error.into()));
        }
        self.at += length;
        self.left -= length;
        Some(Ok(buffer.into()))
    }
}

pub(crate) struct PooledBody(Option<Awaited<Option<Bytes>>>);

impl PooledBody {
    pub(crate) const fn new(making: Awaited<Option<Bytes>>) -> Self {
        Self(Some(making))
    }
}

impl Body for PooledBody {
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
        // The head with `Content-Encoding` has been sent, so the body can only be cut off.
        let made = made?.ok_or("failed to compress the body")?;
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
        let body = ChunkStream::from_file(File::open(&path).unwrap(), 1_000, 150_000);
        assert_eq!(body.size_hint().exact(), Some(150_000));
        let sent = body.collect().await.unwrap().to_bytes();
        assert_eq!(sent, &content[1_000..151_000]);
        let beyond = ChunkStream::from_file(File::open(&path).unwrap(), 199_999, 2);
        assert!(beyond.collect().await.is_err());
    }
}
