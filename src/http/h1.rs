//! One connection: hyper's HTTP/1 machine, and the time-outs that it does not have. The time for a
//! head and the time between requests are two things: with one timer, ten seconds for a head would
//! race every heartbeat.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{self, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::connection_state::{ConnectionState, Phase};
use super::io_observer::ObserveReads;
use super::service::Service;
use super::shutdown::{PARTING_TIME, Shutdown, Stage};
use crate::config::limits::{
    DRAIN_BYTES, DRAIN_TIME, HEAD_TIME, HEADER_BLOCK_PARSER_MAX, IDLE_TIME, READ_BUFFER_MAX,
    WRITE_STALL,
};

/// Since when bytes cannot go.
#[derive(Default)]
pub(super) struct WriteStall {
    written: u32,
    limit: Option<Instant>,
}

impl WriteStall {
    /// The instant at which the client has not read for too long.
    pub(super) fn limit(&mut self, pulse: &ConnectionState) -> Option<Instant> {
        if pulse.blocked() {
            let written = pulse.written();
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

/// When the connection has waited long enough.
struct Deadlines {
    turn: u32,
    wait: Option<Instant>,
    stuck: WriteStall,
    /// Until when a connection without a byte is waited for at the end of the service.
    last: Option<Instant>,
}

impl Deadlines {
    fn new(began: Instant) -> Self {
        Self {
            turn: 0,
            wait: Some(began + HEAD_TIME),
            stuck: WriteStall::default(),
            last: None,
        }
    }

    /// The instant at which the connection is closed if nothing changes.
    fn limit(&mut self, pulse: &ConnectionState, stage: Stage) -> Option<Instant> {
        if stage == Stage::Draining && pulse.is_fresh() {
            let last = self
                .last
                .get_or_insert_with(|| Instant::now() + PARTING_TIME);
            return Some(*last);
        }
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
        match (self.wait, self.stuck.limit(pulse)) {
            (Some(wait), Some(stuck)) => Some(wait.min(stuck)),
            (wait, stuck) => wait.or(stuck),
        }
    }
}

/// One timer for all of a connection's time-outs. It is moved when a limit comes nearer; when one
/// moves away, as with every request, the timer goes off too early once and is set again.
struct Timer {
    registered: bool,
}

impl Timer {
    fn poll_expired(
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

/// Serves a connection, begun at that instant, until either side has enough of it.
pub(super) async fn drive<S>(stream: S, service: Service, halt: &Shutdown, began: Instant)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let pulse = Arc::clone(&service.pulse);
    let stream = ObserveReads::new(stream, Arc::clone(&pulse));
    let mut builder = http1::Builder::new();
    builder
        .header_read_timeout(None)
        .half_close(true)
        .max_header_size(HEADER_BLOCK_PARSER_MAX)
        .max_buf_size(READ_BUFFER_MAX);
    let mut connection = builder.serve_connection(TokioIo::new(stream), service);
    let mut watch = Deadlines::new(began);
    let ended = run(
        Pin::new(&mut connection),
        || pulse.enter_lame_duck(),
        |connection| {
            // The machine would close it at once, and what was just accepted is about to ask.
            if !pulse.is_fresh() {
                connection.graceful_shutdown();
            }
        },
        || watch.limit(&pulse, halt.stage()),
        halt,
    )
    .await;
    if ended {
        // On the heap: no connection need be larger all its life for its end.
        Box::pin(lame_duck(connection.into_parts().io.into_inner())).await;
    }
}

/// Ends a connection so that the client can read all that was sent to it. A socket that is closed
/// while bytes lie in it unread is reset, and a reset takes along what is still on its way.
async fn lame_duck(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let reading = async {
        stream.shutdown().await?;
        io::copy(&mut stream.take(DRAIN_BYTES as u64), &mut io::sink()).await
    };
    // A client that has gone, or goes on sending, has had its chance.
    let _ = timeout(DRAIN_TIME, reading).await;
}

/// Runs a protocol's machine until it has ended, which is what is returned, or its limit has come, or
/// that of the service. `part` makes the answers last ones, `finish` asks the machine to take no
/// further request.
pub(super) async fn run<C: Future>(
    mut connection: Pin<&mut C>,
    part: impl Fn(),
    finish: impl Fn(Pin<&mut C>),
    mut limit: impl FnMut() -> Option<Instant>,
    halt: &Shutdown,
) -> bool {
    let mut timer = pin!(sleep(HEAD_TIME));
    let mut alarm = Timer { registered: false };
    let mut halted = pin!(halt.changed());
    let mut seen = None;
    poll_fn(|cx| {
        let before = seen;
        if before != Some(halt.stage()) {
            halted.set(halt.changed());
            while halted.as_mut().poll(cx).is_ready() {
                halted.set(halt.changed());
            }
            // It waits, so that no change from here on is missed.
            seen = Some(halt.stage());
        }
        match seen {
            Some(Stage::Aborting) => return Poll::Ready(false),
            Some(Stage::LameDuck | Stage::Draining) => part(),
            Some(Stage::Serving) | None => {}
        }
        if connection.as_mut().poll(cx).is_ready() {
            return Poll::Ready(true);
        }
        // Only now: a request that is there already has been taken.
        if before != seen && seen == Some(Stage::Draining) {
            finish(connection.as_mut());
            // An idle connection ends at once; this poll is what ends it.
            if connection.as_mut().poll(cx).is_ready() {
                return Poll::Ready(true);
            }
        }
        if alarm.poll_expired(timer.as_mut(), limit(), cx) {
            return Poll::Ready(false);
        }
        Poll::Pending
    })
    .await
}
