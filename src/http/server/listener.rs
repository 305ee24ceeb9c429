//! Accept loops, connection limits and graceful shutdown.
//!
//! Shutdown has three phases: announce the end to clients, stop accepting, and finish running requests within
//! a deadline.

use std::net::{self, IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use crate::config::limits::ACCEPT_PAUSE;
use crate::descriptor_reserve;
use crate::http::access::local_admin::Administrator;
use crate::http::connection::h1::drive;
use crate::http::connection::h2;
use crate::http::connection::io_observer::ObserveWrites;
use crate::http::connection::state::ConnectionState;
use crate::http::pipeline::Service;
use crate::http::routing::router::RouteSet;
use crate::http::server::connection_limiter::{
    ConnectionLimiter, ConnectionLimits, ConnectionPermit, REFUSAL,
};
use crate::http::server::forwarded::ForwardedConnections;
use crate::http::server::shutdown::{PARTING_TIME, Shutdown, Stage};
use crate::http::server::tls;
use crate::http::standby::OwnerConnections;
use crate::http::state::HttpState;
use crate::ports::tls::Tls;
use crate::types::{ConnectionOrigin, ListenerKind};

const BACKLOG: u32 = 1_024;

/// The owner and the group may connect to the local administration socket.
const SOCKET_MODE: u32 = 0o660;

const THIS_MACHINE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

pub(crate) enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A bound socket and the routes that it serves. Binding happens before the service is built, because
/// responses may contain the bound address.
pub struct Listener {
    pub(crate) socket: Socket,
    pub(crate) options: ListenerOptions,
}

#[derive(Clone)]
pub(crate) struct ListenerOptions {
    pub(crate) routes: RouteSet,
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

pub fn tcp_socket(address: SocketAddr) -> io::Result<net::TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // After a restart, connections in TIME_WAIT would otherwise block the address for a minute.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)?.into_std()
}

/// Binds a Unix socket that its owner and the group may use.
///
/// # Errors
/// The path cannot be bound, or it exists and is not a socket, or a process listens on it.
pub fn unix_socket(path: &Path) -> io::Result<unix::net::UnixListener> {
    // Removes the socket that a killed process left behind.
    if fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket()) {
        if is_served(path) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        fs::remove_file(path)?;
    }
    let listener = unix::net::UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(SOCKET_MODE))?;
    Ok(listener)
}

/// Whether a process has the socket open, which may be any other program: a path has no lock.
pub fn is_served(path: &Path) -> bool {
    // Does not block: a listener with a full queue would let `connect` wait.
    let connect = || {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)
    };
    match connect() {
        Ok(()) => true,
        // A full queue, a socket of another type, and one of a user who gives no access to it.
        Err(error) => matches!(error, Errno::AGAIN | Errno::PROTOTYPE | Errno::ACCESS),
    }
}

impl Listener {
    pub fn tcp(address: SocketAddr, routes: RouteSet) -> io::Result<Self> {
        Self::from_tcp(tcp_socket(address)?, routes)
    }

    /// The administration socket: the mode of its file controls access.
    pub fn admin(socket: unix::net::UnixListener) -> io::Result<Self> {
        let mut listener = Self::from_unix(socket, RouteSet::Ops)?;
        listener.options.is_admin_socket = true;
        Ok(listener)
    }

    pub fn from_tcp(socket: net::TcpListener, routes: RouteSet) -> io::Result<Self> {
        // The runtime requires it, and an inherited socket may be blocking.
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket: Socket::Tcp(TcpListener::from_std(socket)?),
            options: ListenerOptions::new(routes),
        })
    }

    pub fn from_unix(socket: unix::net::UnixListener, routes: RouteSet) -> io::Result<Self> {
        // The runtime requires it, and an inherited socket may be blocking.
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket: Socket::Unix(UnixListener::from_std(socket)?),
            options: ListenerOptions::new(routes),
        })
    }

    #[must_use]
    pub fn over(mut self, tls: Arc<Tls>) -> Self {
        self.options.tls = Some(tls);
        self
    }

    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.socket {
            Socket::Tcp(listener) => listener.local_addr().ok(),
            Socket::Unix(_) => None,
        }
    }
}

#[must_use]
pub fn serve(http: Arc<HttpState>, listeners: Vec<Listener>) -> RunningServer {
    let running = RunningServer::new(http);
    running.accept(listeners);
    running
}

const PIPE_BYTES: usize = 64 * 1024;

/// Opens an in-process connection to the operators' interface, with the rights of the administration socket.
/// Commands use it when no server is running.
#[must_use]
pub fn connect(http: Arc<HttpState>) -> DuplexStream {
    let (near, far) = tokio::io::duplex(PIPE_BYTES);
    // Nobody waits for the end of this connection: it ends when the caller drops `near`.
    let (acceptor, _) = Acceptor::new(http);
    acceptor.serve(
        far,
        THIS_MACHINE,
        None,
        Some(Administrator::here()),
        &ListenerOptions::new(RouteSet::Ops),
    );
    near
}

pub struct RunningServer {
    acceptor: Acceptor,
    ended: mpsc::Receiver<()>,
}

impl RunningServer {
    /// Accepts no connections yet.
    #[must_use]
    pub fn new(http: Arc<HttpState>) -> Self {
        let (acceptor, ended) = Acceptor::new(http);
        Self { acceptor, ended }
    }

    pub fn accept(&self, listeners: impl IntoIterator<Item = Listener>) {
        for listener in listeners {
            tokio::spawn(accept(self.acceptor.clone(), listener));
        }
    }

    /// Accepts connections of a listener that becomes available later.
    pub fn accept_late(&self, late: impl Future<Output = Listener> + Send + 'static) {
        let acceptor = self.acceptor.clone();
        tokio::spawn(async move {
            let shutdown = Arc::clone(&acceptor.shutdown);
            tokio::select! {
                () = shutdown.closed() => {}
                listener = late => accept(acceptor, listener).await,
            }
        });
    }

    /// Serves connections that other members of a fleet accept.
    pub(crate) fn forwarded(&self) -> ForwardedConnections {
        ForwardedConnections::new(self.acceptor.clone())
    }

    /// Shuts down gracefully; requests still running after `within` are aborted. Returns whether all
    /// finished.
    pub async fn stop(mut self, within: Duration) -> bool {
        let shutdown = Arc::clone(&self.acceptor.shutdown);
        // `ended` waits until every clone is dropped, and this is one of them.
        drop(self.acceptor);
        shutdown.go_to(Stage::LameDuck);
        sleep(PARTING_TIME).await;
        shutdown.go_to(Stage::Draining);
        let finished = timeout(within, self.ended.recv()).await.is_ok();
        shutdown.go_to(Stage::Aborting);
        if !finished {
            // Aborted connections end at their next poll.
            let _ = timeout(Duration::from_secs(1), self.ended.recv()).await;
        }
        finished
    }
}

#[derive(Clone)]
pub(super) struct Acceptor {
    pub(super) http: Arc<HttpState>,
    limiter: Arc<ConnectionLimiter>,
    shutdown: Arc<Shutdown>,
    /// Every task holds a clone; [`RunningServer::stop`] waits until the last one is dropped.
    open: mpsc::Sender<()>,
}

async fn accept(acceptor: Acceptor, listener: Listener) {
    let shutdown = Arc::clone(&acceptor.shutdown);
    let mut closed = std::pin::pin!(shutdown.closed());
    loop {
        let next = async {
            match &listener.socket {
                Socket::Tcp(socket) => {
                    let (stream, peer) = socket.accept().await?;
                    acceptor.serve_tcp(stream, peer, &listener.options);
                }
                Socket::Unix(socket) => {
                    let (stream, _) = socket.accept().await?;
                    acceptor.serve_unix(stream, &listener.options);
                }
            }
            Ok::<_, io::Error>(())
        };
        // The stage is polled first (`biased`): a flood of new connections must not delay a shutdown.
        let accepted = tokio::select! {
            biased;
            () = &mut closed => break,
            accepted = next => accepted,
        };
        if let Err(error) = accepted {
            // A client that disconnected early is no fault of the listener. Any other error, such as running
            // out of file descriptors, needs time to pass.
            let gone = matches!(
                error.kind(),
                io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
            );
            let released = listener.options.is_admin_socket
                && descriptor_reserve::is_exhaustion(&error)
                && descriptor_reserve::release_for_administrator();
            if !gone && !released {
                tracing::warn!(%error, "failed to accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    if let Err(error) = acceptor.serve_backlog(listener) {
        tracing::warn!(%error, "failed to serve the connections waiting at shutdown");
    }
}

impl Acceptor {
    fn new(http: Arc<HttpState>) -> (Self, mpsc::Receiver<()>) {
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
            shutdown: Arc::default(),
            open,
        };
        (acceptor, ended)
    }

    /// Serves the connections that the kernel has already accepted. Closing the socket would reset them.
    fn serve_backlog(&self, listener: Listener) -> io::Result<()> {
        let options = listener.options;
        match listener.socket {
            Socket::Tcp(socket) => {
                let socket = socket.into_std()?;
                // The socket is non-blocking: `accept` fails once the queue is empty.
                while let Ok((stream, peer)) = socket.accept() {
                    stream.set_nonblocking(true)?;
                    self.serve_tcp(TcpStream::from_std(stream)?, peer, &options);
                }
            }
            Socket::Unix(socket) => {
                let socket = socket.into_std()?;
                while let Ok((stream, _)) = socket.accept() {
                    stream.set_nonblocking(true)?;
                    self.serve_unix(UnixStream::from_std(stream)?, &options);
                }
            }
        }
        Ok(())
    }

    fn serve_unix(&self, stream: UnixStream, options: &ListenerOptions) {
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

    fn serve_tcp(&self, stream: TcpStream, peer: SocketAddr, options: &ListenerOptions) {
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
        let service = Service {
            http: Arc::clone(&self.http),
            routes: options.routes,
            administrator,
            peer,
            conn_state: Arc::new(ConnectionState::default()),
            owner: self.owner_connections(peer, administrator, options.routes),
        };
        let (began, tls) = (Instant::now(), options.tls.clone());
        let is_http2 = options.is_http2;
        let stream = ObserveWrites::new(stream, Arc::clone(&service.conn_state));
        let shutdown = Arc::clone(&self.shutdown);
        let open = self.open.clone();
        tokio::spawn(async move {
            match tls {
                None if is_http2 => {
                    Box::pin(h2::drive(stream, service, &shutdown, began)).await;
                }
                None => drive(stream, service, &shutdown, began).await,
                // Boxed, so that the task of a plain connection is not as large as that of a TLS connection.
                Some(tls) => Box::pin(tls::drive(stream, &tls, service, &shutdown, began)).await,
            }
            // Released only now: the limits count connections until they end, and `RunningServer::stop` waits for this
            // task.
            drop((permit, open));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_removed_only_if_no_process_listens_on_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let first = unix_socket(&path).unwrap();
        let refused = unix_socket(&path).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        assert!(unix::net::UnixStream::connect(&path).is_ok());
        // The file of a killed process.
        drop(first);
        assert!(unix_socket(&path).is_ok());
    }
}
