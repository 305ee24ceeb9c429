//! The connections of a standby to the owner on behalf of one connection of a client.
//!
//! The owner sees the client's address once for each of them, so they are not shared between clients. An HTTP/1 client has
//! one request at a time and needs one connection. The requests that an HTTP/2 client sends at the same time share one
//! HTTP/2 connection; otherwise a client could use up the descriptors of both members with a few connections.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, Version};
use http_body_util::{Either, Empty};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;

use crate::standby_fleet::{FleetFuture, NoOwner, OwnerStream, StandbyFleet};
use playgate_config::limits::{H2_STREAM_WINDOW, H2_STREAMS, HEADER_BLOCK_PARSER_MAX};
use playgate_types::ConnectionOrigin;

pub(super) type ForwardedBody = Either<Incoming, Empty<Bytes>>;
type Single = http1::SendRequest<ForwardedBody>;
type Shared = http2::SendRequest<ForwardedBody>;

/// A slow reader of one response must not delay the others, so the connection has room for all streams.
const CONNECTION_WINDOW: u32 = H2_STREAMS * H2_STREAM_WINDOW;

pub(crate) struct OwnerConnections {
    pub(super) fleet: Arc<dyn StandbyFleet>,
    origin: ConnectionOrigin,
    idle: Mutex<Vec<Single>>,
    /// Locked while it is opened, so that requests at the same time wait for the one connection.
    shared: tokio::sync::Mutex<Option<Shared>>,
}

/// A connection that can take a request.
pub(super) enum Sender {
    Single(Single),
    Shared(Shared),
}

impl Sender {
    pub(super) fn send(
        &mut self,
        request: Request<ForwardedBody>,
    ) -> FleetFuture<'static, Result<Response<Incoming>, TrySendError<Request<ForwardedBody>>>>
    {
        match self {
            Self::Single(sender) => Box::pin(sender.try_send_request(request)),
            Self::Shared(sender) => Box::pin(sender.try_send_request(request)),
        }
    }
}

impl OwnerConnections {
    pub(crate) fn new(fleet: Arc<dyn StandbyFleet>, origin: ConnectionOrigin) -> Self {
        Self {
            fleet,
            origin,
            idle: Mutex::new(Vec::new()),
            shared: tokio::sync::Mutex::new(None),
        }
    }

    pub(crate) fn is_standby(&self) -> bool {
        self.fleet.is_standby()
    }

    /// Returns a connection for a request of a client that uses this version.
    pub(super) async fn take(&self, version: Version) -> Result<Sender, NoOwner> {
        match version {
            Version::HTTP_2 => self.take_shared().await,
            _ => self.take_single().await,
        }
    }

    pub(super) fn keep(&self, sender: Sender) {
        match sender {
            Sender::Single(sender) => self.idle.lock().push(sender),
            // It stays in its place while it is in use.
            Sender::Shared(_) => {}
        }
    }

    async fn take_single(&self) -> Result<Sender, NoOwner> {
        loop {
            let kept = self.idle.lock().pop();
            let Some(mut kept) = kept else {
                return self.open(false).await;
            };
            // The previous response on this connection has been read to its end, because the client has sent its next
            // request.
            if kept.ready().await.is_ok() {
                return Ok(Sender::Single(kept));
            }
        }
    }

    async fn take_shared(&self) -> Result<Sender, NoOwner> {
        let mut shared = self.shared.lock().await;
        if let Some(mut sender) = shared.clone()
            && sender.ready().await.is_ok()
        {
            return Ok(Sender::Shared(sender));
        }
        let opened = self.open(true).await?;
        *shared = match &opened {
            Sender::Shared(sender) => Some(sender.clone()),
            // An owner of an earlier version.
            Sender::Single(_) => None,
        };
        Ok(opened)
    }

    async fn open(&self, is_multiplexed: bool) -> Result<Sender, NoOwner> {
        let origin = ConnectionOrigin {
            is_multiplexed,
            ..self.origin
        };
        let OwnerStream {
            stream,
            is_multiplexed,
            moved,
            permit,
        } = self.fleet.connect(origin).await?;
        let io = TokioIo::new(stream);
        // The request that runs, or the next one, reports the end of the connection.
        let (sender, connection): (_, FleetFuture<'static, ()>) = match is_multiplexed {
            true => {
                let mut builder = http2::Builder::new(TokioExecutor::new());
                builder
                    .initial_stream_window_size(H2_STREAM_WINDOW)
                    .initial_connection_window_size(CONNECTION_WINDOW)
                    .max_concurrent_reset_streams(H2_STREAMS as usize);
                let (sender, connection) = builder.handshake(io).await.map_err(broken)?;
                let connection = async { drop(connection.await) };
                (Sender::Shared(sender), Box::pin(connection))
            }
            false => {
                let mut builder = http1::Builder::new();
                builder.max_header_size(HEADER_BLOCK_PARSER_MAX);
                let (sender, connection) = builder.handshake(io).await.map_err(broken)?;
                let connection = async { drop(connection.await) };
                (Sender::Single(sender), Box::pin(connection))
            }
        };
        tokio::spawn(async move {
            tokio::select! {
                () = connection => {}
                // A previous owner that hangs or is cut off answers nothing more.
                () = moved => {}
            }
            drop(permit);
        });
        Ok(sender)
    }
}

fn broken(_: hyper::Error) -> NoOwner {
    NoOwner::Absent
}
