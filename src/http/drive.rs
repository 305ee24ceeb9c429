//! One connection: hyper's HTTP/1 machine, and the time-outs that it does not have. The time for a
//! head and the time between requests are two things: with one timer, ten seconds for a head would
//! race every heartbeat.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::listen::{Halt, Stage};
use super::pulse::{Phase, Pulse};
use super::service::Service;
use crate::config::limits::{
    HEAD_TIME, HEADER_BLOCK_PARSER_MAX, IDLE_TIME, READ_BUFFER_MAX, WRITE_STALL,
};

/// A socket that tells the connection's task what comes and goes.
struct Socket<S> {
    inner: S,
    pulse: Arc<Pulse>,
}

impl<S> Socket<S> {
    fn note(&self, written: &Poll<io::Result<usize>>) {
        match written {
            Poll::Ready(Ok(_)) => self.pulse.went(),
            Poll::Pending => self.pulse.block(),
            Poll::Ready(Err(_)) => {}
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Socket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let done = Pin::new(&mut self.inner).poll_read(cx, buffer);
        if let Some(came) = buffer.filled().get(before..)
            && !came.is_empty()
        {
            self.pulse.came(came);
        }
        done
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Socket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.note(&done);
        done
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.inner).poll_write_vectored(cx, pieces);
        self.note(&done);
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

/// When the connection has waited long enough.
struct Watch {
    turn: u32,
    wait: Option<Instant>,
    written: u32,
    stuck: Option<Instant>,
}

impl Watch {
    fn new() -> Self {
        Self {
            turn: 0,
            wait: Some(Instant::now() + HEAD_TIME),
            written: 0,
            stuck: None,
        }
    }

    /// The instant at which the connection is closed if nothing changes.
    fn limit(&mut self, pulse: &Pulse) -> Option<Instant> {
        let phase = pulse.phase();
        let turn = pulse.turn();
        if turn != self.turn {
            self.turn = turn;
            self.wait = match phase {
                Phase::Head => Some(Instant::now() + HEAD_TIME),
                Phase::Busy => None,
                Phase::Idle => Some(Instant::now() + IDLE_TIME),
            };
        }
        if pulse.blocked() {
            let written = pulse.written();
            if self.stuck.is_none() || written != self.written {
                self.written = written;
                self.stuck = Some(Instant::now() + WRITE_STALL);
            }
        } else {
            self.stuck = None;
        }
        match (self.wait, self.stuck) {
            (Some(wait), Some(stuck)) => Some(wait.min(stuck)),
            (wait, stuck) => wait.or(stuck),
        }
    }
}

/// One timer for all of a connection's time-outs. It is moved when a limit comes nearer; when one
/// moves away, as with every request, the timer goes off too early once and is set again.
struct Alarm {
    registered: bool,
}

impl Alarm {
    fn rings(
        &mut self,
        mut timer: Pin<&mut Sleep>,
        limit: Option<Instant>,
        cx: &mut Context<'_>,
    ) -> bool {
        let Some(limit) = limit else {
            return false;
        };
        if timer.is_elapsed() {
            if Instant::now() >= limit {
                return true;
            }
            timer.as_mut().reset(limit);
            self.registered = false;
        } else if limit < timer.deadline() {
            timer.as_mut().reset(limit);
            self.registered = false;
        }
        if self.registered {
            return false;
        }
        self.registered = true;
        timer.poll(cx).is_ready() && Instant::now() >= limit
    }
}

/// Serves a connection until either side has enough of it.
pub(super) async fn drive<S>(stream: S, service: Service, halt: Arc<Halt>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let pulse = Arc::clone(&service.pulse);
    let socket = Socket {
        inner: stream,
        pulse: Arc::clone(&pulse),
    };
    let mut builder = http1::Builder::new();
    builder
        .header_read_timeout(None)
        .half_close(true)
        .max_header_size(HEADER_BLOCK_PARSER_MAX)
        .max_buf_size(READ_BUFFER_MAX);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(socket), service));
    let mut timer = pin!(sleep(HEAD_TIME));
    let mut watch = Watch::new();
    let mut alarm = Alarm { registered: false };
    let mut halted = pin!(halt.changed());
    let mut waiting_for_halt = false;
    let mut draining = false;
    poll_fn(|cx| {
        if connection.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        if !waiting_for_halt {
            waiting_for_halt = halted.as_mut().poll(cx).is_pending();
        }
        match halt.stage() {
            Stage::Serving => {}
            Stage::Ended => return Poll::Ready(()),
            Stage::Draining if draining => {}
            Stage::Draining => {
                draining = true;
                halted.set(halt.changed());
                waiting_for_halt = halted.as_mut().poll(cx).is_pending();
                connection.as_mut().graceful_shutdown();
                // An idle connection ends at once; this poll is what ends it.
                if connection.as_mut().poll(cx).is_ready() || halt.stage() == Stage::Ended {
                    return Poll::Ready(());
                }
            }
        }
        if alarm.rings(timer.as_mut(), watch.limit(&pulse), cx) {
            return Poll::Ready(());
        }
        Poll::Pending
    })
    .await;
}
