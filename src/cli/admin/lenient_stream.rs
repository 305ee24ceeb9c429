//! A connection that hears the server out. A server that refuses an upload answers and closes while
//! the client is still sending; the next write then fails, and the answer, which has arrived, would
//! be lost behind that failure. Here such a write goes nowhere instead, and reading goes on.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream whose writes do not fail when the other end is gone.
pub struct IgnoreWriteErrors<S>(pub S);

fn swallow(written: Poll<io::Result<usize>>, length: usize) -> Poll<io::Result<usize>> {
    match written {
        Poll::Ready(Err(error))
            if matches!(
                error.kind(),
                io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
            ) =>
        {
            Poll::Ready(Ok(length))
        }
        other => other,
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for IgnoreWriteErrors<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for IgnoreWriteErrors<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        swallow(
            Pin::new(&mut self.0).poll_write(context, bytes),
            bytes.len(),
        )
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
