//! Drives one HTTP/1 connection: hyper's state machine plus the time-outs that hyper lacks.
//!
//! The time for a request head and the idle time between requests are separate limits. With one timer, the
//! ten seconds for a head would close connections of players between two heartbeats.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{self, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, Sleep, sleep, timeout};

use crate::connection::io_observer::ObserveReads;
use crate::connection::shutdown::{PARTING_TIME, Shutdown, Stage};
use crate::connection_state::{ConnectionState, Phase};
use crate::standby::MemberService;
use playgate_config::limits::{
    DRAIN_BYTES, DRAIN_TIME, HEAD_TIME, HEADER_BLOCK_PARSER_MAX, IDLE_TIME, READ_BUFFER_MAX,
    WRITE_STALL,
};

#[derive(Default)]
pub(crate) struct WriteStall {
    written: u32,
    limit: Option<Instant>,
}

impl WriteStall {
    pub(crate) fn limit(&mut self, conn_state: &ConnectionState) -> Option<Instant> {
        if conn_state.blocked() {
            let written = conn_state.written();
            // Any progress restarts the time-out: a slow reader is served, one that has stopped is not.
            if self.limit.is_none() || written != self.written {
                self.written = written;
                self.limit = Some(Instant::now() + WRITE_STALL);
            }
        } else {
            self.limit = None;
        }
        self.limit
    }
}

struct Deadlines {
    turn: u32,
    wait: Option<Instant>,
    write_stall: WriteStall,
    first_byte_limit: Option<Instant>,
}

impl Deadlines {
    fn new(began: Instant) -> Self {
        Self {
            turn: 0,
            wait: Some(began + HEAD_TIME),
            write_stall: WriteStall::default(),
            first_byte_limit: None,
        }
    }

    fn limit(&mut self, conn_state: &ConnectionState, stage: Stage) -> Option<Instant> {
        // The first request of a new connection may be on the way; it gets a moment to arrive instead of a reset.
        if stage == Stage::Draining && conn_state.is_unused() {
            let first_byte_limit = self
                .first_byte_limit
                .get_or_insert_with(|| Instant::now() + PARTING_TIME);
            return Some(*first_byte_limit);
        }
        let phase = conn_state.phase();
        let turn = conn_state.turn();
        // A deadline starts once with its phase. Polls within the phase do not extend it, so that a client that
        // trickles bytes gains no time.
        if turn != self.turn {
            self.turn = turn;
            self.wait = match phase {
                Phase::Head => Some(Instant::now() + HEAD_TIME),
                // The deadline of the route bounds a running request.
                Phase::Busy => None,
                Phase::Idle => Some(Instant::now() + IDLE_TIME),
            };
        }
        match (self.wait, self.write_stall.limit(conn_state)) {
            (Some(wait), Some(write_stall)) => Some(wait.min(write_stall)),
            (wait, write_stall) => wait.or(write_stall),
        }
    }
}

struct Timer {
    registered: bool,
}

impl Timer {
    fn poll_expired(
        &mut self,
        mut delay: Pin<&mut Sleep>,
        limit: Option<Instant>,
        cx: &mut Context<'_>,
    ) -> bool {
        let Some(limit) = limit else {
            return false;
        };
        if delay.is_elapsed() {
            if Instant::now() >= limit {
                return true;
            }
            delay.as_mut().reset(limit);
            self.registered = false;
        } else if limit < delay.deadline() {
            // A deadline that moves away needs no update: the timer fires early once and is set again above.
            // That saves a timer update for each request.
            delay.as_mut().reset(limit);
            self.registered = false;
        }
        if self.registered {
            return false;
        }
        self.registered = true;
        delay.poll(cx).is_ready() && Instant::now() >= limit
    }
}

/// Serves a connection until it ends. `began` is when it was accepted.
pub(crate) async fn drive<S>(stream: S, service: MemberService, shutdown: &Shutdown, began: Instant)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let conn_state = Arc::clone(&service.service.conn_state);
    let stream = ObserveReads::new(stream, Arc::clone(&conn_state));
    let mut builder = http1::Builder::new();
    builder
        // hyper's only timer would also run between two heartbeats of a player.
        .header_read_timeout(None)
        // A client may send FIN after its request and still read the response.
        .half_close(true)
        // Above the limit that the service checks, because the refusal of the service has a body that explains it.
        .max_header_size(HEADER_BLOCK_PARSER_MAX)
        .max_buf_size(READ_BUFFER_MAX);
    let mut connection = builder.serve_connection(TokioIo::new(stream), service);
    let mut deadlines = Deadlines::new(began);
    let ended = run(
        Pin::new(&mut connection),
        || conn_state.enter_lame_duck(),
        |connection| {
            // hyper would close a fresh connection immediately, although its first request may be on the way.
            if !conn_state.is_unused() {
                connection.graceful_shutdown();
            }
        },
        || deadlines.limit(&conn_state, shutdown.stage()),
        shutdown,
    )
    .await;
    if ended {
        // Boxed, because the future of a running connection should not hold room for its shutdown.
        Box::pin(close_gracefully(connection.into_parts().io.into_inner())).await;
    }
}

async fn close_gracefully(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let reading = async {
        // The kernel resets a socket that is closed with unread input, and a reset discards data that the
        // client has not read yet.
        stream.shutdown().await?;
        io::copy(&mut stream.take(DRAIN_BYTES as u64), &mut io::sink()).await
    };
    // The drain is bounded in bytes and time, so a client that keeps sending cannot hold the connection.
    let _ = timeout(DRAIN_TIME, reading).await;
}

/// Polls a protocol connection until it ends, a deadline passes or the shutdown aborts it. `announce_end`
/// marks responses as the last of the connection; `finish` asks the connection to accept no further request.
/// Returns whether the connection ended by itself.
pub(crate) async fn run<C: Future>(
    mut connection: Pin<&mut C>,
    announce_end: impl Fn(),
    finish: impl Fn(Pin<&mut C>),
    mut limit: impl FnMut() -> Option<Instant>,
    shutdown: &Shutdown,
) -> bool {
    let mut delay = pin!(sleep(HEAD_TIME));
    let mut timer = Timer { registered: false };
    let mut stage_change = pin!(shutdown.changed());
    let mut seen = None;
    poll_fn(|cx| {
        let before = seen;
        if before != Some(shutdown.stage()) {
            stage_change.set(shutdown.changed());
            while stage_change.as_mut().poll(cx).is_ready() {
                stage_change.set(shutdown.changed());
            }
            // `stage_change` is registered now, so no later change is missed.
            seen = Some(shutdown.stage());
        }
        match seen {
            Some(Stage::Aborting) => return Poll::Ready(false),
            Some(Stage::LameDuck | Stage::Draining) => announce_end(),
            Some(Stage::Serving) | None => {}
        }
        if connection.as_mut().poll(cx).is_ready() {
            return Poll::Ready(true);
        }
        // `finish` follows the poll, so that a request that was already received is served.
        if before != seen && seen == Some(Stage::Draining) {
            finish(connection.as_mut());
            // An idle connection ends immediately, in this poll.
            if connection.as_mut().poll(cx).is_ready() {
                return Poll::Ready(true);
            }
        }
        // After the poll, because its progress may have moved the deadline.
        if timer.poll_expired(delay.as_mut(), limit(), cx) {
            return Poll::Ready(false);
        }
        Poll::Pending
    })
    .await
}
