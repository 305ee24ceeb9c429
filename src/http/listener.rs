//! The accept loops, the caps on connections, and the way to an end: part from clients, stop accepting,
//! finish what runs, within a deadline.

use std::net::{self, IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{fs, io};

use dashmap::DashMap;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use super::auth::Administrator;
use super::client_addr::counted_as;
use super::connection_state::ConnectionState;
use super::h1::drive;
use super::io_observer::ObserveWrites;
use super::router::RouteSet;
use super::service::Service;
use super::shutdown::{PARTING_TIME, Shutdown, Stage};
use super::tls;
use crate::app::App;
use crate::config::limits::ACCEPT_REST;
use crate::ports::tls::Tls;

/// Connections that the kernel holds for us until we accept them.
const BACKLOG: u32 = 1_024;

/// Who may connect to the local administration socket: its owner and the group.
const SOCKET_MODE: u32 = 0o660;

/// Where those are who have no address: a socket of the file system, this process.
const THIS_MACHINE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The answer to a connection over the cap: without a request, without a body of ours.
const REFUSAL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\n\
    Cache-Control: no-store\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// Open connections, in all and by address.
struct ConnectionLimiter {
    app: Arc<App>,
    open: AtomicU32,
    by_address: DashMap<IpAddr, u32>,
}

/// The place of one connection.
struct ConnectionPermit {
    seats: Arc<ConnectionLimiter>,
    /// `None` for peers that are exempt.
    counted: Option<IpAddr>,
}

impl ConnectionLimiter {
    fn acquire(self: &Arc<Self>, peer: IpAddr) -> Option<ConnectionPermit> {
        let limits = &self.app.limits;
        if self.open.fetch_add(1, Ordering::Relaxed) >= limits.connections {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let mut seat = ConnectionPermit {
            seats: Arc::clone(self),
            counted: None,
        };
        self.app.front.metrics.connections.add(1);
        let proxies = &self.app.http.trusted_proxies;
        if proxies.iter().any(|network| network.contains(peer)) {
            return Some(seat);
        }
        let counted = counted_as(peer);
        {
            let mut number = self.by_address.entry(counted).or_insert(0);
            if *number >= limits.connections_per_address {
                // The seat goes back by its drop, which takes no part of this entry.
                return None;
            }
            *number += 1;
        }
        seat.counted = Some(counted);
        Some(seat)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.seats.open.fetch_sub(1, Ordering::Relaxed);
        self.seats.app.front.metrics.connections.add(-1);
        if let Some(address) = self.counted {
            if let Some(mut number) = self.seats.by_address.get_mut(&address) {
                *number = number.saturating_sub(1);
            }
            // Addresses without connections leave nothing behind.
            self.seats
                .by_address
                .remove_if(&address, |_, number| *number == 0);
        }
    }
}

pub(super) enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A socket that is listened on, and what it serves. Bound before the service is put together: its
/// address may be a part of the answers.
pub struct Listener {
    pub(super) socket: Socket,
    pub(super) door: ListenerOptions,
}

/// How what comes through a socket is served.
#[derive(Clone)]
pub(super) struct ListenerOptions {
    pub(super) table: RouteSet,
    /// Whoever gets through is the machine's administrator.
    local: bool,
    /// What connections are protected with, if they are.
    pub(super) tls: Option<Arc<Tls>>,
}

impl ListenerOptions {
    const fn new(table: RouteSet) -> Self {
        Self {
            table,
            local: false,
            tls: None,
        }
    }
}

/// Opens a socket that listens on an address; with port 0 the kernel chooses one.
///
/// # Errors
/// The address cannot be had.
pub fn tcp_socket(address: SocketAddr) -> io::Result<net::TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)?.into_std()
}

/// Opens a socket that listens in the file system, for its owner and the group.
///
/// # Errors
/// The path cannot be had, or holds something that is no socket.
pub fn unix_socket(path: &Path) -> io::Result<unix::net::UnixListener> {
    // A socket that a killed process left behind; whether one is served is for the lock of the data
    // directory to say.
    if fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket()) {
        fs::remove_file(path)?;
    }
    let listener = unix::net::UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(SOCKET_MODE))?;
    Ok(listener)
}

impl Listener {
    /// Listens on an address; with port 0 the kernel chooses one.
    ///
    /// # Errors
    /// The address cannot be had.
    pub fn tcp(address: SocketAddr, table: RouteSet) -> io::Result<Self> {
        Self::from_tcp(tcp_socket(address)?, table)
    }

    /// Listens on a socket in the file system. With `local` it is the administration socket: its
    /// mode says who may use it.
    ///
    /// # Errors
    /// The path cannot be had, or holds something that is no socket.
    pub fn unix(path: &Path, table: RouteSet, local: bool) -> io::Result<Self> {
        let mut listener = Self::from_unix(unix_socket(path)?, table)?;
        listener.door.local = local;
        Ok(listener)
    }

    /// Listens on a socket that was opened elsewhere.
    ///
    /// # Errors
    /// The runtime cannot wait for it.
    pub fn from_tcp(socket: net::TcpListener, table: RouteSet) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket: Socket::Tcp(TcpListener::from_std(socket)?),
            door: ListenerOptions::new(table),
        })
    }

    /// As [`from_tcp`](Self::of_tcp).
    ///
    /// # Errors
    /// The runtime cannot wait for it.
    pub fn from_unix(socket: unix::net::UnixListener, table: RouteSet) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket: Socket::Unix(UnixListener::from_std(socket)?),
            door: ListenerOptions::new(table),
        })
    }

    /// The same over TLS.
    #[must_use]
    pub fn over(mut self, tls: Arc<Tls>) -> Self {
        self.door.tls = Some(tls);
        self
    }

    /// The address, if it has one.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.socket {
            Socket::Tcp(listener) => listener.local_addr().ok(),
            Socket::Unix(_) => None,
        }
    }
}

/// Serves, on the runtime that this is called on.
#[must_use]
pub fn serve(app: Arc<App>, listeners: Vec<Listener>) -> Running {
    serve_with_late(app, listeners, std::future::pending())
}

/// As [`serve`], and on one more listener once it is there.
#[must_use]
pub fn serve_with_late(
    app: Arc<App>,
    listeners: Vec<Listener>,
    late: impl Future<Output = Listener> + Send + 'static,
) -> Running {
    let (acceptor, ended) = Acceptor::new(app);
    let halt = Arc::clone(&acceptor.halt);
    for listener in listeners {
        tokio::spawn(accept(acceptor.clone(), listener));
    }
    tokio::spawn(async move {
        let halt = Arc::clone(&acceptor.halt);
        tokio::select! {
            () = halt.closed() => {}
            listener = late => accept(acceptor, listener).await,
        }
    });
    Running { halt, ended }
}

/// Bytes that a connection inside of this process holds each way.
const PIPE: usize = 64 * 1024;

/// A connection to the operators' interface inside of this process, as over the administration
/// socket: for commands that find no server running.
#[must_use]
pub fn connect(app: Arc<App>) -> DuplexStream {
    let (near, far) = tokio::io::duplex(PIPE);
    let (acceptor, _) = Acceptor::new(app);
    acceptor.serve(
        far,
        THIS_MACHINE,
        None,
        Some(Administrator::here()),
        &ListenerOptions::new(RouteSet::Ops),
    );
    near
}

/// Listeners that serve.
pub struct Running {
    halt: Arc<Shutdown>,
    ended: mpsc::Receiver<()>,
}

impl Running {
    /// Parts from clients, stops accepting, lets running requests finish within the time, then ends
    /// what is left. Whether all had finished.
    pub async fn stop(mut self, within: Duration) -> bool {
        self.halt.go_to(Stage::LameDuck);
        sleep(PARTING_TIME).await;
        self.halt.go_to(Stage::Draining);
        let finished = timeout(within, self.ended.recv()).await.is_ok();
        self.halt.go_to(Stage::Aborting);
        if !finished {
            // What is left has been told to end; it does at its next step.
            let _ = timeout(Duration::from_secs(1), self.ended.recv()).await;
        }
        finished
    }
}

#[derive(Clone)]
struct Acceptor {
    app: Arc<App>,
    seats: Arc<ConnectionLimiter>,
    halt: Arc<Shutdown>,
    /// Held by every task; the last one to go ends the wait of [`Running::stop`].
    open: mpsc::Sender<()>,
}

async fn accept(acceptor: Acceptor, listener: Listener) {
    let halt = Arc::clone(&acceptor.halt);
    let mut closed = std::pin::pin!(halt.closed());
    loop {
        let next = async {
            match &listener.socket {
                Socket::Tcp(socket) => {
                    let (stream, peer) = socket.accept().await?;
                    acceptor.seat_tcp(stream, peer, &listener.door);
                }
                Socket::Unix(socket) => {
                    let (stream, _) = socket.accept().await?;
                    acceptor.serve_unix(stream, &listener.door);
                }
            }
            Ok::<_, io::Error>(())
        };
        let accepted = tokio::select! {
            biased;
            () = &mut closed => break,
            accepted = next => accepted,
        };
        if let Err(error) = accepted {
            // A client that went away concerns nobody else; out of descriptors, only time helps.
            let gone = matches!(
                error.kind(),
                io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
            );
            if !gone {
                tracing::warn!(%error, "cannot accept connections");
                sleep(ACCEPT_REST).await;
            }
        }
    }
    if let Err(error) = acceptor.take_the_last(listener) {
        tracing::warn!(%error, "some connections were cut off");
    }
}

impl Acceptor {
    /// One, and what ends when it and all its tasks are gone.
    fn new(app: Arc<App>) -> (Self, mpsc::Receiver<()>) {
        let (open, ended) = mpsc::channel(1);
        let seats = ConnectionLimiter {
            app: Arc::clone(&app),
            open: AtomicU32::new(0),
            by_address: DashMap::new(),
        };
        let acceptor = Self {
            seats: Arc::new(seats),
            app,
            halt: Arc::default(),
            open,
        };
        (acceptor, ended)
    }

    /// Serves those who are connected already and wait to be accepted: closing the socket would cut
    /// them off.
    fn take_the_last(&self, listener: Listener) -> io::Result<()> {
        let door = listener.door;
        match listener.socket {
            Socket::Tcp(socket) => {
                let socket = socket.into_std()?;
                // It does not block, and ends with an error when nobody waits.
                while let Ok((stream, peer)) = socket.accept() {
                    stream.set_nonblocking(true)?;
                    self.seat_tcp(TcpStream::from_std(stream)?, peer, &door);
                }
            }
            Socket::Unix(socket) => {
                let socket = socket.into_std()?;
                while let Ok((stream, _)) = socket.accept() {
                    stream.set_nonblocking(true)?;
                    self.serve_unix(UnixStream::from_std(stream)?, &door);
                }
            }
        }
        Ok(())
    }

    fn serve_unix(&self, stream: UnixStream, door: &ListenerOptions) {
        match door.local.then(|| stream.peer_cred()).transpose() {
            Ok(peer) => {
                let local = peer.map(|peer| Administrator { uid: peer.uid() });
                self.serve(stream, THIS_MACHINE, None, local, door);
            }
            // Nobody changes anything without a name.
            Err(error) => tracing::warn!(%error, "the kernel does not tell who connects"),
        }
    }

    fn seat_tcp(&self, stream: TcpStream, peer: SocketAddr, door: &ListenerOptions) {
        let peer = peer.ip().to_canonical();
        let Some(seat) = self.seats.acquire(peer) else {
            self.app.front.metrics.refused.one();
            if door.tls.is_none() {
                // As much as fits at once; nothing is waited for.
                let _ = stream.try_write(REFUSAL);
            }
            return;
        };
        // Answers are small and must not wait for more of them.
        let _ = stream.set_nodelay(true);
        self.serve(stream, peer, Some(seat), None, door);
    }

    fn serve<S>(
        &self,
        stream: S,
        peer: IpAddr,
        seat: Option<ConnectionPermit>,
        local: Option<Administrator>,
        door: &ListenerOptions,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = Service {
            app: Arc::clone(&self.app),
            table: door.table,
            local,
            peer,
            pulse: Arc::new(ConnectionState::default()),
        };
        let (began, tls) = (Instant::now(), door.tls.clone());
        let stream = ObserveWrites::new(stream, Arc::clone(&service.pulse));
        let halt = Arc::clone(&self.halt);
        let open = self.open.clone();
        tokio::spawn(async move {
            match tls {
                None => drive(stream, service, &halt, began).await,
                // On the heap: connections without TLS need not be as large as those with it.
                Some(tls) => Box::pin(tls::drive(stream, &tls, service, &halt, began)).await,
            }
            drop((seat, open));
        });
    }
}
