//! Accepts connections on a member of a fleet that is not the owner, and passes them on unread.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::config::limits::ACCEPT_PAUSE;
use crate::http::routing::router::RouteSet;
use crate::http::server::listener::{Listener, ListenerOptions, Socket};
use crate::types::{ConnectionOrigin, ListenerKind};

pub(crate) trait ClientStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> ClientStream for S {}

/// Forwards a connection. The permit counts it until it ends.
pub(crate) type PassOn =
    Arc<dyn Fn(Box<dyn ClientStream>, ConnectionOrigin, OwnedSemaphorePermit) + Send + Sync>;

#[must_use]
pub(crate) fn serve(
    listeners: &[Arc<Listener>],
    connections: u32,
    pass_on: &PassOn,
) -> JoinSet<()> {
    let slots = Arc::new(Semaphore::new(usize::try_from(connections).unwrap_or(1)));
    let mut tasks = JoinSet::new();
    for listener in listeners {
        let (listener, pass_on) = (Arc::clone(listener), Arc::clone(pass_on));
        tasks.spawn(accept(listener, pass_on, Arc::clone(&slots)));
    }
    tasks
}

async fn accept(listener: Arc<Listener>, pass_on: PassOn, slots: Arc<Semaphore>) {
    // Over the limit, connections wait in the kernel's backlog.
    while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
        let options = &listener.options;
        let accepted = match &listener.socket {
            Socket::Tcp(socket) => socket.accept().await.map(|(stream, peer)| {
                let _ = stream.set_nodelay(true);
                let origin = origin(options, peer.ip().to_canonical(), None);
                pass_on(Box::new(stream), origin, slot);
            }),
            Socket::Unix(socket) => socket.accept().await.and_then(|(stream, _)| {
                // As on the owner: without a uid the audit record could not name the administrator.
                let uid = match options.local {
                    true => Some(stream.peer_cred()?.uid()),
                    false => None,
                };
                let origin = origin(options, IpAddr::V4(Ipv4Addr::LOCALHOST), uid);
                pass_on(Box::new(stream), origin, slot);
                Ok(())
            }),
        };
        if accepted.is_err() {
            sleep(ACCEPT_PAUSE).await;
        }
    }
}

fn origin(options: &ListenerOptions, from: IpAddr, uid: Option<u32>) -> ConnectionOrigin {
    let to = match (options.table, options.tls.is_some(), options.local) {
        (RouteSet::Public, false, _) => ListenerKind::Public,
        (RouteSet::Public, true, _) => ListenerKind::Secure,
        (RouteSet::Ops, _, false) => ListenerKind::Ops,
        (RouteSet::Ops, _, true) => ListenerKind::Local,
    };
    ConnectionOrigin { to, from, uid }
}
