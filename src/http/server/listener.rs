//! Accept loops, connection limits and graceful shutdown.
//!
//! Shutdown has three phases: announce the end to clients, stop accepting, and finish running requests within
//! a deadline.

pub use std::net::{self, SocketAddr};
use std::os::unix;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use tokio::io::DuplexStream;
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::access::local_admin::Administrator;
use crate::connection::shutdown::{PARTING_TIME, Stage};
use crate::route_facts::RouteSet;
use crate::routing::router::Routers;
use crate::server::acceptor::{Acceptor, ListenerOptions, THIS_MACHINE};
use crate::server::forwarded::ForwardedConnections;
use crate::state::HttpState;
use playgate_config::limits::ACCEPT_PAUSE;
use playgate_ports::Tls;
use playgate_process::descriptor_reserve;

const BACKLOG: u32 = 1_024;

/// The owner and the group may connect to the local administration socket.
const SOCKET_MODE: u32 = 0o660;

pub(crate) enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A bound socket and the routes that it serves. Binding happens before the service is built, because
/// responses may contain the bound address.
pub struct Listener {
    pub(crate) socket: Socket,
    pub options: ListenerOptions,
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

    pub fn over(mut self, tls: Arc<Tls>) -> Self {
        self.options.tls = Some(tls);
        self
    }

    pub fn address(&self) -> Option<SocketAddr> {
        match &self.socket {
            Socket::Tcp(listener) => listener.local_addr().ok(),
            Socket::Unix(_) => None,
        }
    }
}

pub fn serve(
    http: Arc<HttpState>,
    routers: &'static Routers,
    listeners: Vec<Listener>,
) -> RunningServer {
    let running = RunningServer::new(http, routers);
    running.accept(listeners);
    running
}

const PIPE_BYTES: usize = 64 * 1024;

/// Opens an in-process connection to the operators' interface, with the rights of the administration socket.
/// Commands use it when no server is running.
pub fn connect(http: Arc<HttpState>, routers: &'static Routers) -> DuplexStream {
    let (near, far) = tokio::io::duplex(PIPE_BYTES);
    // Nobody waits for the end of this connection: it ends when the caller drops `near`.
    let (acceptor, _) = Acceptor::new(http, routers);
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
    pub fn new(http: Arc<HttpState>, routers: &'static Routers) -> Self {
        let (acceptor, ended) = Acceptor::new(http, routers);
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
    pub fn forwarded(&self) -> ForwardedConnections {
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
    if let Err(error) = serve_backlog(&acceptor, listener) {
        tracing::warn!(%error, "failed to serve the connections waiting at shutdown");
    }
}

/// Serves the connections that the kernel has already accepted. Closing the socket would reset them.
fn serve_backlog(acceptor: &Acceptor, listener: Listener) -> io::Result<()> {
    let options = listener.options;
    match listener.socket {
        Socket::Tcp(socket) => {
            let socket = socket.into_std()?;
            // The socket is non-blocking: `accept` fails once the queue is empty.
            while let Ok((stream, peer)) = socket.accept() {
                stream.set_nonblocking(true)?;
                acceptor.serve_tcp(TcpStream::from_std(stream)?, peer, &options);
            }
        }
        Socket::Unix(socket) => {
            let socket = socket.into_std()?;
            while let Ok((stream, _)) = socket.accept() {
                stream.set_nonblocking(true)?;
                acceptor.serve_unix(UnixStream::from_std(stream)?, &options);
            }
        }
    }
    Ok(())
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
