//! Opens the listeners that the configuration names.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::lookup_host;
use tokio::time::sleep;

use super::inherited_sockets::{self, ADMIN, PassedSocket};
use crate::client::admin_socket::SocketPath;
use crate::output::Failure;
use playgate_config::{Config, ListenAddress};
use playgate_http::server::listener::{tcp_socket, unix_socket};
use playgate_http::{Listener, RouteSet};
use playgate_ports::Tls;
use playgate_store::StoreError;

pub(crate) struct BoundListeners {
    /// Partner interface first, operations last.
    pub listeners: Vec<Listener>,
    /// URLs of the partner interface: the first address without TLS, and all with TLS.
    pub shown: Vec<String>,
    pub ops: Option<std::net::SocketAddr>,
}

pub(crate) async fn all(
    config: &Config,
    tls: Option<&Arc<Tls>>,
) -> Result<BoundListeners, Failure> {
    let (mut listeners, mut shown) = (Vec::new(), Vec::new());
    for address in &config.server.listen {
        let bound = one(address, RouteSet::Public, "listen").await?;
        if listeners.is_empty() {
            shown.extend(bound.first().map(|bound| shown_as("http", address, bound)));
        }
        listeners.extend(bound);
    }
    if let Some(tls) = tls {
        for address in &config.tls.listen {
            for bound in one(address, RouteSet::Public, "tls.listen").await? {
                shown.push(shown_as("https", address, &bound));
                listeners.push(bound.over(Arc::clone(tls)));
            }
        }
    }
    let ops = one(&config.ops.listen, RouteSet::Ops, "ops.listen").await?;
    let ops_address = ops.iter().find_map(Listener::address);
    listeners.extend(ops);
    // Only now, when every configured address has claimed its socket.
    for name in inherited_sockets::close_unused() {
        tracing::warn!(
            name,
            "no `listen` key names this socket of the service manager: its connections are not accepted; add `socket:NAME` to a `listen` key"
        );
    }
    Ok(BoundListeners {
        listeners,
        shown,
        ops: ops_address,
    })
}

fn shown_as(scheme: &str, given: &ListenAddress, listener: &Listener) -> String {
    match listener.address() {
        Some(address) => format!("{scheme}://{address}"),
        None => given.to_string(),
    }
}

/// Listens on an address, or on all sockets passed under a name. `key` is the configuration key.
async fn one(
    address: &ListenAddress,
    table: RouteSet,
    key: &str,
) -> Result<Vec<Listener>, Failure> {
    let sockets = sockets(address, key).await;
    let bound = sockets.and_then(|sockets| {
        let listeners = sockets.into_iter().map(|socket| match socket {
            PassedSocket::Tcp(socket) => Listener::from_tcp(socket, table),
            PassedSocket::Unix(socket) => Listener::from_unix(socket, table),
        });
        listeners.collect::<io::Result<Vec<_>>>()
    });
    bound.map_err(|error| refusal(key, address, &error))
}

pub(crate) async fn probe(address: &ListenAddress, key: &str) -> Result<(), Failure> {
    // Opened and closed again: this shows whether the next start can bind it.
    let opened = open(address).await;
    opened.map_err(|error| refusal(key, address, &error))?;
    Ok(())
}

fn refusal(key: &str, address: &ListenAddress, error: &io::Error) -> Failure {
    let failure = Failure::failed(format!("`{key}`: {address}: {error}"));
    if error.kind() == io::ErrorKind::AddrInUse {
        let variable = key.to_uppercase().replace('.', "_");
        let flag = match key {
            "listen" => "--listen, ",
            "ops.listen" => "--ops-listen, ",
            _ => "",
        };
        failure.hint(format!(
            "the address is in use; choose another one with {flag}`{key}` or PLAYGATE_{variable}"
        ))
    } else {
        failure
    }
}

async fn sockets(address: &ListenAddress, key: &str) -> io::Result<Vec<PassedSocket>> {
    // After a re-exec the socket is open already; binding it again would fail.
    if let Some(held) = inherited_sockets::passed_on_socket(key, address)? {
        return Ok(vec![held]);
    }
    let opened = open(address).await?;
    // Passed sockets are kept already, under the name that the service manager gave them.
    if let ListenAddress::Passed(_) = address {
        return Ok(opened);
    }
    let sockets = opened.into_iter();
    sockets
        .map(|socket| inherited_sockets::register(key, address, socket))
        .collect()
}

async fn open(address: &ListenAddress) -> io::Result<Vec<PassedSocket>> {
    let socket = match address {
        ListenAddress::Tcp { host, port } => {
            let address = lookup_host((host.as_str(), *port))
                .await?
                // Only the first address of a host name is used.
                .next()
                .ok_or_else(|| io::Error::other("the host name has no address"))?;
            PassedSocket::Tcp(tcp_socket(address)?)
        }
        ListenAddress::Unix(path) => PassedSocket::Unix(unix_socket(path)?),
        ListenAddress::Passed(name) => return inherited_sockets::passed(name),
    };
    Ok(vec![socket])
}

/// Opens the administration socket; `None` if it cannot be created now, on a full or read-only disk.
pub(crate) fn admin(directory: &Path) -> Result<Option<Listener>, Failure> {
    match admin_socket(directory) {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if StoreError::from(io::Error::from(error.kind())) == StoreError::Full => {
            tracing::warn!(%error, "cannot create the administration socket; retrying");
            Ok(None)
        }
        Err(error) => Err(Failure::failed(format!(
            "the administration socket in {}: {error}",
            directory.display()
        ))),
    }
}

fn admin_socket(directory: &Path) -> io::Result<Listener> {
    let place = SocketPath::for_data_dir(directory)?;
    let name = ListenAddress::Unix(directory.to_owned());
    // Connections of commands wait in the queue of a socket that this process had before it executed itself again. It is of
    // no use without its file, which leads to it.
    let inherited =
        inherited_sockets::passed_on_socket(ADMIN, &name)?.filter(|_| place.path().exists());
    // The socket of another data directory, if a reload has changed it.
    inherited_sockets::close(ADMIN);
    let socket = match inherited {
        Some(socket) => socket,
        None => PassedSocket::Unix(unix_socket(place.path())?),
    };
    match inherited_sockets::register(ADMIN, &name, socket)? {
        PassedSocket::Unix(socket) => Listener::admin(socket),
        PassedSocket::Tcp(_) => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Retries to create the administration socket. Never returns if it is not `missing`.
pub(crate) async fn admin_later(missing: bool, directory: PathBuf) -> Listener {
    const RETRY_EVERY: Duration = Duration::from_secs(2);
    if !missing {
        std::future::pending::<()>().await;
    }
    loop {
        sleep(RETRY_EVERY).await;
        if let Ok(Some(listener)) = admin(&directory) {
            return listener;
        }
    }
}
