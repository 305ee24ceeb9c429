//! Listening sockets that live as long as the process: those passed by the service manager and our own.
//! Listeners use duplicated handles. On a re-exec all sockets are passed to the new program, as the service
//! manager would pass them: no client is rejected, and new connections wait until it accepts them.

use std::ffi::OsString;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;
use std::process::Command;

use data_encoding::HEXLOWER;
use listenfd::ListenFd;
use parking_lot::Mutex;
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::net::sockopt::socket_acceptconn;

use super::held_lock;
use crate::output::{CommandResult, Failure};
use playgate_config::ListenAddress;

const NAMES: &str = "LISTEN_FDNAMES";
/// The service manager's name for unnamed sockets.
const UNNAMED: &str = "unknown";
/// Name prefix of the sockets that this program passes on to its next process; unlikely in an operator's unit.
const PASSED_ON_PREFIX: &str = "playgate-own-";
/// Name of the socket that carries the lock of the data directory.
const LOCK: &str = "playgate-lock";
/// Stands for the administration socket, which no configuration key names.
pub(crate) const ADMIN: &str = "admin";
/// First descriptor for passed sockets; any free block above it is used.
const PASSED_ON_FROM: RawFd = 64;

pub(crate) enum PassedSocket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

struct InheritedSocket {
    name: String,
    socket: PassedSocket,
    /// Whether a listener has, or had, a handle on it.
    used: bool,
}

// Global, because the sockets belong to the process, as its standard streams do.
static SOCKETS: Mutex<Vec<InheritedSocket>> = Mutex::new(Vec::new());

/// Takes over the passed sockets. Changes the environment, so it must be called while the process has one
/// thread.
///
/// # Errors
/// A passed descriptor is not a listening stream socket.
pub(crate) fn adopt() -> CommandResult {
    let names = std::env::var_os(NAMES).unwrap_or_default();
    let mut given = ListenFd::from_env();
    let mut held = SOCKETS.lock();
    for index in 0..given.len() {
        let name = name_at(&names, index);
        if name == LOCK {
            let socket = given.take_unix_datagram(index).ok().flatten();
            // Without the lock, the start waits until it is free.
            let _ = socket.map(|socket| held_lock::unpack(&socket));
            continue;
        }
        let socket = listener(&mut given, index).ok_or_else(|| {
            Failure::usage(format!(
                "the passed socket `{name}` is not a listening stream socket \
                 (`ListenStream=` and `Accept=no`)"
            ))
        })?;
        held.push(InheritedSocket {
            name,
            socket,
            used: false,
        });
    }
    Ok(())
}

fn name_at(names: &OsString, index: usize) -> String {
    let names = names.to_string_lossy();
    let name = names.split(':').nth(index).filter(|name| !name.is_empty());
    name.unwrap_or(UNNAMED).to_owned()
}

fn listener(given: &mut ListenFd, index: usize) -> Option<PassedSocket> {
    // `take_tcp_listener` leaves a socket of another type in place for the next call.
    let tcp = given.take_tcp_listener(index).ok().flatten();
    let unix = given.take_unix_listener(index).ok().flatten();
    tcp.map(PassedSocket::Tcp)
        .or_else(|| unix.map(PassedSocket::Unix))
        // A connected socket, as `Accept=yes` passes it, would fail at the first accept.
        .filter(|socket| socket_acceptconn(socket).is_ok_and(|listens| listens))
}

/// Returns handles on the sockets passed under a name, which a unit may give to several.
pub(crate) fn passed(name: &str) -> io::Result<Vec<PassedSocket>> {
    let mut held = SOCKETS.lock();
    let of_name = handles(&mut held, name)?;
    if !of_name.is_empty() {
        return Ok(of_name);
    }
    let names: Vec<&str> = held
        .iter()
        .map(|each| each.name.as_str())
        .filter(|name| !name.starts_with(PASSED_ON_PREFIX))
        .collect();
    Err(io::Error::other(if names.is_empty() {
        "the service manager passed no sockets".to_owned()
    } else {
        format!("no such socket was passed; available: {}", names.join(", "))
    }))
}

/// Returns a handle on our own socket for a key and address, if it is open already.
pub(crate) fn passed_on_socket(
    key: &str,
    address: &ListenAddress,
) -> io::Result<Option<PassedSocket>> {
    Ok(handles(&mut SOCKETS.lock(), &passed_on_name(key, address))?.pop())
}

pub(crate) fn register(
    key: &str,
    address: &ListenAddress,
    socket: PassedSocket,
) -> io::Result<PassedSocket> {
    // Made before the socket is kept, so that an error closes the socket.
    let handle = socket.handle()?;
    SOCKETS.lock().push(InheritedSocket {
        name: passed_on_name(key, address),
        socket,
        used: true,
    });
    Ok(handle)
}

fn passed_on_name(key: &str, address: &ListenAddress) -> String {
    // Contains the key, since two keys may both use port 0. Hexadecimal, since names must not contain colons.
    let address = HEXLOWER.encode(address.to_string().as_bytes());
    format!("{PASSED_ON_PREFIX}{key}-{address}")
}

fn is_of(name: &str, key: &str) -> bool {
    let after = name.strip_prefix(PASSED_ON_PREFIX);
    let of = after.and_then(|name| name.rsplit_once('-'));
    of.is_some_and(|(of, _)| of == key)
}

fn handles(held: &mut [InheritedSocket], name: &str) -> io::Result<Vec<PassedSocket>> {
    let of_name = held.iter_mut().filter(|each| each.name == name);
    of_name
        .map(|each| {
            each.used = true;
            each.socket.handle()
        })
        .collect()
}

/// Closes our own sockets that the configuration no longer names. Returns the names of passed sockets that
/// it does not name, on which no client is served. The administration socket has its own place in the start.
pub(crate) fn close_unused() -> Vec<String> {
    let mut held = SOCKETS.lock();
    held.retain(|each| {
        each.used || !each.name.starts_with(PASSED_ON_PREFIX) || is_of(&each.name, ADMIN)
    });
    let idle = held
        .iter()
        .filter(|each| !each.used && !each.name.starts_with(PASSED_ON_PREFIX));
    idle.map(|each| each.name.clone()).collect()
}

/// Closes our own sockets of a key.
pub(crate) fn close(key: &str) {
    SOCKETS.lock().retain(|each| !is_of(&each.name, key));
}

/// Closes our own sockets: new connections are refused unless a listener has a handle.
pub(crate) fn close_all() {
    SOCKETS
        .lock()
        .retain(|each| !each.name.starts_with(PASSED_ON_PREFIX));
}

/// Passes all sockets, and the lock of the data directory, to the program that replaces this one.
pub(crate) fn export(command: &mut Command) -> io::Result<()> {
    let held = SOCKETS.lock();
    let lock = held_lock::pack().unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot hand over the lock of the data directory: a command may take it before the restart has ended");
        None
    });
    let mut passed: Vec<(&str, BorrowedFd<'_>)> = (held.iter())
        .map(|each| (each.name.as_str(), each.socket.as_fd()))
        .collect();
    passed.extend(lock.as_ref().map(|lock| (LOCK, lock.as_fd())));
    if passed.is_empty() {
        return Ok(());
    }
    let block = in_a_row(&passed)?;
    let first = block.first().map_or(PASSED_ON_FROM, |fd| fd.as_raw_fd());
    for descriptor in block {
        // Only the duplicates lose close-on-exec: other child processes must not inherit a listener.
        fcntl_setfd(&descriptor, FdFlags::empty())?;
        // Keep it open for the new program.
        std::mem::forget(descriptor);
    }
    let names: Vec<&str> = passed.iter().map(|(name, _)| *name).collect();
    command
        // Programs ignore sockets that are meant for another process; `exec` keeps the process id.
        .env("LISTEN_PID", std::process::id().to_string())
        .env("LISTEN_FDS", passed.len().to_string())
        // An extension of the crate `listenfd`: systemd always begins at 3.
        .env("LISTEN_FDS_FIRST_FD", first.to_string())
        .env(NAMES, names.join(":"));
    Ok(())
}

fn in_a_row(passed: &[(&str, BorrowedFd<'_>)]) -> io::Result<Vec<OwnedFd>> {
    // The socket activation protocol names only the first descriptor and their number.
    let mut next = PASSED_ON_FROM;
    let mut row: Vec<OwnedFd> = Vec::new();
    while let Some((_, socket)) = passed.get(row.len()) {
        let descriptor = fcntl_dupfd_cloexec(socket, next)?;
        let number = descriptor.as_raw_fd();
        if number == next {
            row.push(descriptor);
        } else {
            // This descriptor is in use: start again behind it.
            row.clear();
        }
        next = number + 1;
    }
    Ok(row)
}

impl PassedSocket {
    fn handle(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(listener) => Self::Tcp(listener.try_clone()?),
            Self::Unix(listener) => Self::Unix(listener.try_clone()?),
        })
    }
}

impl AsFd for PassedSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener) => listener.as_fd(),
        }
    }
}
