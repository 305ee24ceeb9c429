//! A stream that ignores write errors. A server that rejects an upload responds and closes while the client
//! still sends. The next write fails, and the response, which has arrived, would be lost. Ignoring the
//! write error lets the client read it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub(super) struct IgnoreWriteErrors<S>(pub S);

fn ignore_error(written: Poll<io::Result<usize>>, length: usize) -> Poll<io::Result<usize>> {
    match written {
        Poll::Ready(Err(error))
            if matches!(
                error.kind(),
                io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
            ) =>
        {
            // The response of the server is still to be read.
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
        ignore_error(
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
