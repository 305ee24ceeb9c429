//! Sockets that are listened on, for as long as the process is: those that the service manager passed,
//! and our own. Listeners come and go on handles of them. The program that is put into this one's
//! place gets them all, as the service manager would pass them, so nobody is refused meanwhile: who
//! connects waits until it accepts.

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

use super::exit::{Failure, Outcome};
use crate::config::Address;

/// The names of passed sockets, with colons between.
const NAMES: &str = "LISTEN_FDNAMES";
/// The name that the service manager itself gives to what has none.
const UNNAMED: &str = "unknown";
/// What the name of a socket of our own begins with; no unit of an operator would.
const OWN: &str = "playgate-own-";
/// The first descriptor under which sockets are passed on. Any free block above does.
const PASSED_ON_FROM: RawFd = 64;

/// A socket that is listened on.
pub enum Socket {
    /// By an address.
    Tcp(TcpListener),
    /// In the file system.
    Unix(UnixListener),
}

struct InheritedSocket {
    name: String,
    socket: Socket,
    /// Whether a listener has, or had, a handle on it.
    used: bool,
}

/// They belong to the process, as its standard streams do.
static HELD: Mutex<Vec<InheritedSocket>> = Mutex::new(Vec::new());

/// Takes what was passed. To be called while the process has one thread: it changes the environment.
///
/// # Errors
/// Something was passed that nobody can be served on.
pub fn adopt() -> Outcome {
    let names = std::env::var_os(NAMES).unwrap_or_default();
    let mut given = ListenFd::from_env();
    let mut held = HELD.lock();
    for index in 0..given.len() {
        let name = name_at(&names, index);
        let socket = listener(&mut given, index).ok_or_else(|| {
            Failure::usage(format!(
                "the passed socket `{name}` is no stream socket that is listened on \
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

fn listener(given: &mut ListenFd, index: usize) -> Option<Socket> {
    // What is left in its place by the first may be taken by the second.
    let tcp = given.take_tcp_listener(index).ok().flatten();
    let unix = given.take_unix_listener(index).ok().flatten();
    tcp.map(Socket::Tcp)
        .or_else(|| unix.map(Socket::Unix))
        .filter(|socket| socket_acceptconn(socket).is_ok_and(|listens| listens))
}

/// Handles on the sockets that were passed under a name, which one unit may give to several.
///
/// # Errors
/// There is none, or the system has no more descriptors.
pub fn passed(name: &str) -> io::Result<Vec<Socket>> {
    let mut held = HELD.lock();
    let of_name = handles(&mut held, name)?;
    if !of_name.is_empty() {
        return Ok(of_name);
    }
    let names: Vec<&str> = held
        .iter()
        .map(|each| each.name.as_str())
        .filter(|name| !name.starts_with(OWN))
        .collect();
    Err(io::Error::other(if names.is_empty() {
        "the service manager has passed no sockets".to_owned()
    } else {
        format!("no such socket was passed, but: {}", names.join(", "))
    }))
}

/// A handle on a socket of our own that is held already, for an address that a key gives.
///
/// # Errors
/// The system has no more descriptors.
pub fn own(key: &str, address: &Address) -> io::Result<Option<Socket>> {
    Ok(handles(&mut HELD.lock(), &own_name(key, address))?.pop())
}

/// Holds a new one; a handle on it.
///
/// # Errors
/// The system has no more descriptors.
pub fn register(key: &str, address: &Address, socket: Socket) -> io::Result<Socket> {
    let handle = socket.handle()?;
    HELD.lock().push(InheritedSocket {
        name: own_name(key, address),
        socket,
        used: true,
    });
    Ok(handle)
}

/// Two keys may both want a free port; and names have no colons.
fn own_name(key: &str, address: &Address) -> String {
    let place = format!("{key} {address}");
    format!("{OWN}{}", HEXLOWER.encode(place.as_bytes()))
}

fn handles(held: &mut [InheritedSocket], name: &str) -> io::Result<Vec<Socket>> {
    let of_name = held.iter_mut().filter(|each| each.name == name);
    of_name
        .map(|each| {
            each.used = true;
            each.socket.handle()
        })
        .collect()
}

/// Closes those of our own that the configuration names no more; the names of passed ones that it
/// does not name, on which nobody will be answered.
pub fn close_unused() -> Vec<String> {
    let mut held = HELD.lock();
    held.retain(|each| each.used || !each.name.starts_with(OWN));
    let idle = held.iter().filter(|each| !each.used);
    idle.map(|each| each.name.clone()).collect()
}

/// Lets go of our own: whoever connects from now on is refused, if no listener has a handle.
pub fn close_all() {
    HELD.lock().retain(|each| !each.name.starts_with(OWN));
}

/// Passes everything on to the program that is put into this one's place.
///
/// # Errors
/// The system has no more descriptors.
pub fn export(command: &mut Command) -> io::Result<()> {
    let held = HELD.lock();
    if held.is_empty() {
        return Ok(());
    }
    let block = in_a_row(&held)?;
    let first = block.first().map_or(PASSED_ON_FROM, |fd| fd.as_raw_fd());
    for descriptor in block {
        fcntl_setfd(&descriptor, FdFlags::empty())?;
        // It stays open for the program that comes.
        std::mem::forget(descriptor);
    }
    let names: Vec<&str> = held.iter().map(|each| each.name.as_str()).collect();
    command
        .env("LISTEN_PID", std::process::id().to_string())
        .env("LISTEN_FDS", held.len().to_string())
        .env("LISTEN_FDS_FIRST_FD", first.to_string())
        .env(NAMES, names.join(":"));
    Ok(())
}

/// Handles whose numbers follow one another: what passes sockets counts from a first one.
fn in_a_row(held: &[InheritedSocket]) -> io::Result<Vec<OwnedFd>> {
    let mut next = PASSED_ON_FROM;
    let mut row: Vec<OwnedFd> = Vec::new();
    while let Some(each) = held.get(row.len()) {
        let descriptor = fcntl_dupfd_cloexec(&each.socket, next)?;
        let number = descriptor.as_raw_fd();
        if number == next {
            row.push(descriptor);
        } else {
            // The number is somebody's: begin behind it.
            row.clear();
        }
        next = number + 1;
    }
    Ok(row)
}

impl Socket {
    /// Another handle on the same socket.
    fn handle(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(listener) => Self::Tcp(listener.try_clone()?),
            Self::Unix(listener) => Self::Unix(listener.try_clone()?),
        })
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener) => listener.as_fd(),
        }
    }
}
