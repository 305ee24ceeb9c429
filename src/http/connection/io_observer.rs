//! I/O wrappers that report reads and writes to the time-out logic of the connection. Writes are observed at
//! the socket, reads at the protocol; with TLS these are two streams.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connection_state::ConnectionState;

pub(crate) trait ReadObserver {
    /// Reports received bytes. An error closes the connection.
    fn on_read(&mut self, bytes: &[u8]) -> io::Result<()>;
}

impl ReadObserver for Arc<ConnectionState> {
    fn on_read(&mut self, _: &[u8]) -> io::Result<()> {
        ConnectionState::on_read(self);
        Ok(())
    }
}

pub(crate) struct ObserveWrites<S> {
    inner: S,
    conn_state: Arc<ConnectionState>,
}

impl<S> ObserveWrites<S> {
    pub(crate) const fn new(inner: S, conn_state: Arc<ConnectionState>) -> Self {
        Self { inner, conn_state }
    }

    fn record(&self, written: &Poll<io::Result<usize>>) {
        match written {
            Poll::Ready(Ok(_)) => self.conn_state.on_write(),
            // The send buffer of the socket is full: the client does not read.
            Poll::Pending => self.conn_state.block(),
            Poll::Ready(Err(_)) => {}
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ObserveWrites<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ObserveWrites<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.record(&done);
        done
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.inner).poll_write_vectored(cx, pieces);
        self.record(&done);
        done
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

pub(crate) struct ObserveReads<S, E> {
    inner: S,
    observer: E,
}

impl<S, E> ObserveReads<S, E> {
    pub(crate) const fn new(inner: S, observer: E) -> Self {
        Self { inner, observer }
    }
}

impl<S: AsyncRead + Unpin, E: ReadObserver + Unpin> AsyncRead for ObserveReads<S, E> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // The buffer may hold bytes of earlier reads, which were reported then.
        let before = buffer.filled().len();
        let done = Pin::new(&mut self.inner).poll_read(cx, buffer);
        if let Some(came) = buffer.filled().get(before..)
            && !came.is_empty()
        {
            self.observer.on_read(came)?;
        }
        done
    }
}

impl<S: AsyncWrite + Unpin, E: Unpin> AsyncWrite for ObserveReads<S, E> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
