//! Serves accepted connections, within their limits.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::access::local_admin::Administrator;
use crate::connection::io_observer::ObserveWrites;
use crate::connection::shutdown::Shutdown;
use crate::connection::{h1, h2};
use crate::connection_state::ConnectionState;
use crate::pipeline::Service;
use crate::route_facts::RouteSet;
use crate::routing::router::Routers;
use crate::server::connection_limiter::{
    ConnectionLimiter, ConnectionLimits, ConnectionPermit, REFUSAL,
};
use crate::server::tls;
use crate::standby::{MemberService, OwnerConnections};
use crate::state::HttpState;
use playgate_ports::Tls;
use playgate_types::{ConnectionOrigin, ListenerKind};

pub(super) const THIS_MACHINE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

#[derive(Clone)]
pub struct ListenerOptions {
    pub routes: RouteSet,
    pub(crate) is_admin_socket: bool,
    pub(crate) tls: Option<Arc<Tls>>,
    /// The connection begins with HTTP/2, without a handshake that negotiates it. Only another member does that.
    pub(super) is_http2: bool,
}

impl ListenerOptions {
    pub(super) const fn new(routes: RouteSet) -> Self {
        Self {
            routes,
            is_admin_socket: false,
            tls: None,
            is_http2: false,
        }
    }
}

#[derive(Clone)]
pub(super) struct Acceptor {
    pub(super) http: Arc<HttpState>,
    routers: &'static Routers,
    limiter: Arc<ConnectionLimiter>,
    pub(super) shutdown: Arc<Shutdown>,
    /// Every task holds a clone; [`RunningServer::stop`](super::listener::RunningServer::stop) waits until the last one is dropped.
    open: mpsc::Sender<()>,
}

impl Acceptor {
    pub(super) fn new(
        http: Arc<HttpState>,
        routers: &'static Routers,
    ) -> (Self, mpsc::Receiver<()>) {
        let (open, ended) = mpsc::channel(1);
        let limits = ConnectionLimits {
            total: http.services.limits.connections,
            per_address: http.services.limits.connections_per_address,
            exempt: http.settings.trusted_proxies.clone(),
        };
        let limiter = ConnectionLimiter::new(limits, Arc::clone(&http.metrics.connections));
        let acceptor = Self {
            limiter: Arc::new(limiter),
            http,
            routers,
            shutdown: Arc::default(),
            open,
        };
        (acceptor, ended)
    }

    pub(super) fn serve_unix(&self, stream: UnixStream, options: &ListenerOptions) {
        match options
            .is_admin_socket
            .then(|| stream.peer_cred())
            .transpose()
        {
            Ok(peer) => {
                let administrator = peer.map(|peer| Administrator { uid: peer.uid() });
                // The administration socket is not limited: administrators must reach a service under load.
                let permit = match options.is_admin_socket {
                    true => None,
                    false => match self.limiter.acquire_total() {
                        Some(permit) => Some(permit),
                        None => return self.refuse(|| stream.try_write(REFUSAL), options),
                    },
                };
                self.serve(stream, THIS_MACHINE, permit, administrator, options);
            }
            // Without a uid the audit record could not name the administrator, so the connection is refused.
            Err(error) => {
                tracing::warn!(%error, "refused a connection to the administration socket: its uid is unknown")
            }
        }
    }

    /// Returns a place for connections to the owner, for a client of a standby.
    fn owner_connections(
        &self,
        peer: IpAddr,
        administrator: Option<Administrator>,
        routes: RouteSet,
    ) -> Option<Arc<OwnerConnections>> {
        let fleet = self.http.fleet.get()?;
        if !fleet.is_standby() {
            return None;
        }
        let origin = ConnectionOrigin {
            to: match (routes, administrator) {
                // TLS, if any, ends here.
                (RouteSet::Public, _) => ListenerKind::Public,
                (RouteSet::Ops, None) => ListenerKind::Ops,
                (RouteSet::Ops, Some(_)) => ListenerKind::Local,
            },
            from: peer,
            uid: administrator.map(|administrator| administrator.uid),
            is_multiplexed: false,
        };
        Some(Arc::new(OwnerConnections::new(Arc::clone(fleet), origin)))
    }

    fn refuse(&self, write: impl FnOnce() -> io::Result<usize>, options: &ListenerOptions) {
        self.http.metrics.refused.one();
        // Over TLS a refusal would cost a handshake, which is what the limit protects from.
        if options.tls.is_none() {
            // Best effort: writes what fits into the socket buffer and does not wait.
            let _ = write();
        }
    }

    pub(super) fn serve_tcp(&self, stream: TcpStream, peer: SocketAddr, options: &ListenerOptions) {
        // An IPv4 client of a dual-stack socket arrives as `::ffff:a.b.c.d`; limits and proxy lists name its IPv4
        // address.
        let peer = peer.ip().to_canonical();
        let Some(permit) = self.limiter.acquire(peer) else {
            return self.refuse(|| stream.try_write(REFUSAL), options);
        };
        // Responses are small; Nagle's algorithm would only delay them.
        let _ = stream.set_nodelay(true);
        self.serve(stream, peer, Some(permit), None, options);
    }

    pub(super) fn serve<S>(
        &self,
        stream: S,
        peer: IpAddr,
        permit: Option<ConnectionPermit>,
        administrator: Option<Administrator>,
        options: &ListenerOptions,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let conn_state = Arc::new(ConnectionState::default());
        let service = MemberService {
            service: Service {
                http: Arc::clone(&self.http),
                router: self.routers.of(options.routes),
                administrator,
                peer,
                conn_state: Arc::clone(&conn_state),
            },
            owner: self.owner_connections(peer, administrator, options.routes),
        };
        let (began, tls) = (Instant::now(), options.tls.clone());
        let is_http2 = options.is_http2;
        let stream = ObserveWrites::new(stream, conn_state);
        let shutdown = Arc::clone(&self.shutdown);
        let open = self.open.clone();
        tokio::spawn(async move {
            match tls {
                None if is_http2 => {
                    Box::pin(h2::drive(stream, service, &shutdown, began)).await;
                }
                None => h1::drive(stream, service, &shutdown, began).await,
                // Boxed, so that the task of a plain connection is not as large as that of a TLS connection.
                Some(tls) => Box::pin(tls::drive(stream, &tls, service, &shutdown, began)).await,
            }
            // Released only now: the limits count connections until they end, and `RunningServer::stop` waits for this
            // task.
            drop((permit, open));
        });
    }
}
