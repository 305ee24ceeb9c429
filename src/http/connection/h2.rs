//! Drives one HTTP/2 connection: hyper's state machine, its limits, and the time-outs that hyper lacks.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use crate::connection::h1::{WriteStall, run};
use crate::connection::h2_frame_limit::FrameLimit;
use crate::connection::h2_streams::{CountedBody, OpenStream, Streams};
use crate::connection::io_observer::ObserveReads;
use crate::connection::shutdown::{Shutdown, Stage};
use crate::connection_state::ConnectionState;
use crate::pipeline::response::ResponseFuture;
use crate::response::body::ConnectionCut;
use crate::standby::MemberService;
use playgate_config::limits::{
    H2_CONNECTION_WINDOW, H2_GOAWAY_TIME, H2_HEADER_LIST_MAX, H2_RESETS, H2_SEND_BUFFER,
    H2_STREAM_WINDOW, H2_STREAMS, HEAD_TIME, IDLE_TIME, WRITE_STALL,
};

struct StreamCounter {
    service: MemberService,
    streams: Arc<Streams>,
}

impl hyper::service::Service<Request<Incoming>> for StreamCounter {
    type Response = Response<CountedBody>;
    type Error = ConnectionCut;
    type Future = PendingResponse;

    fn call(&self, request: Request<Incoming>) -> PendingResponse {
        PendingResponse {
            open: Some(OpenStream::new(&self.streams)),
            response: self.service.call(request),
        }
    }
}

struct PendingResponse {
    open: Option<OpenStream>,
    response: ResponseFuture,
}

impl Future for PendingResponse {
    type Output = Result<Response<CountedBody>, ConnectionCut>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let answer = ready!(Pin::new(&mut this.response).poll(cx))?;
        let Some(open) = this.open.take() else {
            return Poll::Pending;
        };
        Poll::Ready(Ok(answer.map(|body| open.respond(body))))
    }
}

struct Http2Deadlines {
    began: Instant,
    idle: Option<Instant>,
    halfway: Option<Instant>,
    /// When response bytes were last written, and the total written by then.
    moved: Option<(Instant, u64)>,
    write_stall: WriteStall,
    draining: Option<Instant>,
}

impl Http2Deadlines {
    fn new(began: Instant) -> Self {
        Self {
            began,
            idle: None,
            halfway: None,
            moved: None,
            write_stall: WriteStall::default(),
            draining: None,
        }
    }

    /// Returns when the connection must be closed or checked again. Streams run in separate tasks and do not wake this
    /// one, so the result may only be a time to check again.
    fn limit(&mut self, streams: &Streams, conn_state: &ConnectionState, stage: Stage) -> Instant {
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
        // A client that sends a part of a frame and stops would otherwise hold the connection while a stream is open.
        if streams.is_halfway() {
            limit = limit.min(*self.halfway.get_or_insert(now) + HEAD_TIME);
        } else {
            self.halfway = None;
        }
        if let Some(write_stall) = self.write_stall.limit(conn_state) {
            limit = limit.min(write_stall);
        }
        limit
    }

    /// Returns the deadline with open streams: a response that is ready must make progress.
    fn answer_deadline(&mut self, streams: &Streams, now: Instant) -> Instant {
        // The deadline of the route bounds the time until a response is ready.
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
            // The client was sent GOAWAY. The connection is closed soon, even if the client leaves it open.
            Some(since) => since.max(idle) + H2_GOAWAY_TIME,
            None if streams.any_opened() => idle + IDLE_TIME,
            None => self.began + HEAD_TIME,
        }
    }
}

pub(crate) async fn drive<S>(stream: S, service: MemberService, shutdown: &Shutdown, began: Instant)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let conn_state = Arc::clone(&service.service.conn_state);
    let streams = Arc::<Streams>::default();
    let stream = ObserveReads::new(stream, FrameLimit::new(Arc::clone(&streams)));
    let service = StreamCounter {
        service,
        streams: Arc::clone(&streams),
    };
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .max_concurrent_streams(H2_STREAMS)
        .max_header_list_size(H2_HEADER_LIST_MAX)
        // The rapid-reset attack (CVE-2023-44487): streams that are opened and immediately reset cost work and count
        // towards no limit.
        .max_pending_accept_reset_streams(H2_RESETS)
        .max_local_error_reset_streams(H2_RESETS)
        // The windows bound the body bytes that are buffered for a handler that reads slowly.
        .initial_stream_window_size(H2_STREAM_WINDOW)
        .initial_connection_window_size(H2_CONNECTION_WINDOW)
        // Bounds the response bytes that are buffered for a client that reads slowly.
        .max_send_buf_size(H2_SEND_BUFFER);
    let connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut deadlines = Http2Deadlines::new(began);
    run(
        connection,
        // HTTP/2 announces the end with a GOAWAY frame, not in responses.
        || {},
        |connection| connection.graceful_shutdown(),
        || Some(deadlines.limit(&streams, &conn_state, shutdown.stage())),
        shutdown,
    )
    .await;
}
