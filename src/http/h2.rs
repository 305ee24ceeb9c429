//! One connection of HTTP/2: hyper's machine, its limits, and the time-outs that it does not have.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::connection_state::ConnectionState;
use super::h1::{WriteStall, run};
use super::h2_frame_limit::FrameLimit;
use super::h2_streams::{CountedBody, OpenStream, Streams};
use super::io_observer::ObserveReads;
use super::service::{ResponseFuture, Service};
use super::shutdown::{Shutdown, Stage};
use crate::config::limits::{
    H2_CONNECTION_WINDOW, H2_FAREWELL, H2_HEADER_LIST_MAX, H2_RESETS, H2_SEND_BUFFER,
    H2_STREAM_WINDOW, H2_STREAMS, HEAD_TIME, IDLE_TIME, WRITE_STALL,
};

/// The service, with an eye on each of its streams.
struct Watched {
    service: Service,
    streams: Arc<Streams>,
}

impl hyper::service::Service<Request<Incoming>> for Watched {
    type Response = Response<CountedBody>;
    type Error = Infallible;
    type Future = Making;

    fn call(&self, request: Request<Incoming>) -> Making {
        Making {
            open: Some(OpenStream::new(&self.streams)),
            answering: self.service.call(request),
        }
    }
}

/// An answer that is being made on an open stream.
struct Making {
    /// Nothing once the answer has it.
    open: Option<OpenStream>,
    answering: ResponseFuture,
}

impl Future for Making {
    type Output = Result<Response<CountedBody>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let answer = ready!(Pin::new(&mut this.answering).poll(cx))?;
        let Some(open) = this.open.take() else {
            return Poll::Pending;
        };
        Poll::Ready(Ok(answer.map(|body| open.answer(body))))
    }
}

/// When the connection has waited long enough.
struct Deadlines {
    began: Instant,
    /// When the last stream ended.
    idle: Option<Instant>,
    halfway: Option<Instant>,
    /// When an answer moved, and how much had gone then.
    moved: Option<(Instant, u64)>,
    stuck: WriteStall,
    draining: Option<Instant>,
}

impl Deadlines {
    fn new(began: Instant) -> Self {
        Self {
            began,
            idle: None,
            halfway: None,
            moved: None,
            stuck: WriteStall::default(),
            draining: None,
        }
    }

    /// The instant at which the connection is closed if nothing changes; or is to be looked at again:
    /// streams run in tasks of their own, and end without a word.
    fn limit(&mut self, streams: &Streams, pulse: &ConnectionState, stage: Stage) -> Instant {
        let now = Instant::now();
        if stage == Stage::Draining {
            self.draining.get_or_insert(now);
        }
        let mut limit = if streams.open() > 0 {
            self.idle = None;
            self.answer_deadline(streams, now)
        } else {
            self.moved = None;
            self.idle_deadline(streams, now)
        };
        if streams.is_halfway() {
            limit = limit.min(*self.halfway.get_or_insert(now) + HEAD_TIME);
        } else {
            self.halfway = None;
        }
        if let Some(stuck) = self.stuck.limit(pulse) {
            limit = limit.min(stuck);
        }
        limit
    }

    /// With open streams: an answer that is there has to move. The time of a request that is being
    /// answered is bounded elsewhere.
    fn answer_deadline(&mut self, streams: &Streams, now: Instant) -> Instant {
        if streams.answered() == 0 {
            self.moved = None;
            return now + WRITE_STALL;
        }
        let sent = streams.sent();
        let moved = self.moved.get_or_insert((now, sent));
        if moved.1 != sent {
            *moved = (now, sent);
        }
        moved.0 + WRITE_STALL
    }

    fn idle_deadline(&mut self, streams: &Streams, now: Instant) -> Instant {
        let idle = *self.idle.get_or_insert(now);
        match self.draining {
            // It has been told; a client that does not say good-bye is not waited for.
            Some(since) => since.max(idle) + H2_FAREWELL,
            None if streams.any_opened() => idle + IDLE_TIME,
            None => self.began + HEAD_TIME,
        }
    }
}

/// Serves a connection, begun at that instant, until either side has enough of it.
pub(super) async fn drive<S>(stream: S, service: Service, halt: &Shutdown, began: Instant)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let pulse = Arc::clone(&service.pulse);
    let streams = Arc::<Streams>::default();
    let stream = ObserveReads::new(stream, FrameLimit::new(Arc::clone(&streams)));
    let service = Watched {
        service,
        streams: Arc::clone(&streams),
    };
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .max_concurrent_streams(H2_STREAMS)
        .max_header_list_size(H2_HEADER_LIST_MAX)
        .max_pending_accept_reset_streams(H2_RESETS)
        .max_local_error_reset_streams(H2_RESETS)
        .initial_stream_window_size(H2_STREAM_WINDOW)
        .initial_connection_window_size(H2_CONNECTION_WINDOW)
        .max_send_buf_size(H2_SEND_BUFFER);
    let connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut watch = Deadlines::new(began);
    run(
        connection,
        // Its farewell is a frame of its own.
        || {},
        |connection| connection.graceful_shutdown(),
        || Some(watch.limit(&streams, &pulse, halt.stage())),
        halt,
    )
    .await;
}
