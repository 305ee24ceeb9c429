//! Accepts connections on a member of a fleet and passes them on to the owner, unread: those of operators at a standby,
//! and all of a member whose services are not open.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::route_facts::RouteSet;
use crate::server::acceptor::ListenerOptions;
use crate::server::connection_limiter::{
    ConnectionLimiter, ConnectionLimits, ConnectionPermit, REFUSAL,
};
use crate::server::listener::{Listener, Socket};
use crate::standby_fleet::ClientStream;
use playgate_config::limits::ACCEPT_PAUSE;
use playgate_types::{ConnectionOrigin, ListenerKind};

/// Connections of the operations listeners and the administration socket together. They have a limit of their own, so
/// that viewers cannot shut out operators and probes.
const OPS_CONNECTIONS: usize = 64;

/// Counts a connection until it is dropped.
pub enum StandbyPermit {
    Public { _permit: ConnectionPermit },
    Ops { _permit: OwnedSemaphorePermit },
}

/// Forwards a connection. The permit counts it until it ends.
pub type PassOn = Arc<dyn Fn(Box<dyn ClientStream>, ConnectionOrigin, StandbyPermit) + Send + Sync>;

pub fn serve(
    listeners: &[Arc<Listener>],
    limits: ConnectionLimits,
    pass_on: &PassOn,
) -> JoinSet<()> {
    // Not in the metrics: they belong to the services, which may not be open.
    let standby = Arc::new(Standby {
        pass_on: Arc::clone(pass_on),
        public: Arc::new(ConnectionLimiter::new(limits, Arc::default())),
        ops: Arc::new(Semaphore::new(OPS_CONNECTIONS)),
    });
    let mut tasks = JoinSet::new();
    for listener in listeners {
        tasks.spawn(accept(Arc::clone(listener), Arc::clone(&standby)));
    }
    tasks
}

struct Standby {
    pass_on: PassOn,
    public: Arc<ConnectionLimiter>,
    ops: Arc<Semaphore>,
}

impl Standby {
    /// Returns `None` over the limit. `peer` is absent for a Unix socket.
    fn permit(&self, routes: RouteSet, peer: Option<IpAddr>) -> Option<StandbyPermit> {
        Some(match (routes, peer) {
            (RouteSet::Ops, _) => StandbyPermit::Ops {
                _permit: Arc::clone(&self.ops).try_acquire_owned().ok()?,
            },
            (RouteSet::Public, Some(peer)) => StandbyPermit::Public {
                _permit: self.public.acquire(peer)?,
            },
            (RouteSet::Public, None) => StandbyPermit::Public {
                _permit: self.public.acquire_total()?,
            },
        })
    }
}

async fn accept(listener: Arc<Listener>, standby: Arc<Standby>) {
    let options = &listener.options;
    loop {
        let accepted = match &listener.socket {
            Socket::Tcp(socket) => socket.accept().await.map(|(stream, peer)| {
                let peer = peer.ip().to_canonical();
                match standby.permit(options.routes, Some(peer)) {
                    Some(permit) => {
                        let _ = stream.set_nodelay(true);
                        (standby.pass_on)(Box::new(stream), origin(options, peer, None), permit);
                    }
                    // Best effort, as on the owner.
                    None if options.tls.is_none() => drop(stream.try_write(REFUSAL)),
                    None => {}
                }
            }),
            Socket::Unix(socket) => socket.accept().await.and_then(|(stream, _)| {
                // As on the owner: without a uid the audit record could not name the administrator.
                let uid = match options.is_admin_socket {
                    true => Some(stream.peer_cred()?.uid()),
                    false => None,
                };
                let origin = origin(options, IpAddr::V4(Ipv4Addr::LOCALHOST), uid);
                match standby.permit(options.routes, None) {
                    Some(permit) => (standby.pass_on)(Box::new(stream), origin, permit),
                    None => drop(stream.try_write(REFUSAL)),
                }
                Ok(())
            }),
        };
        if accepted.is_err() {
            sleep(ACCEPT_PAUSE).await;
        }
    }
}

fn origin(options: &ListenerOptions, from: IpAddr, uid: Option<u32>) -> ConnectionOrigin {
    let to = match (
        options.routes,
        options.tls.is_some(),
        options.is_admin_socket,
    ) {
        (RouteSet::Public, false, _) => ListenerKind::Public,
        (RouteSet::Public, true, _) => ListenerKind::Secure,
        (RouteSet::Ops, _, false) => ListenerKind::Ops,
        (RouteSet::Ops, _, true) => ListenerKind::Local,
    };
    ConnectionOrigin {
        to,
        from,
        uid,
        // Its bytes are not read here.
        is_multiplexed: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_hold_by_address_and_leave_operators_room() {
        let limits = ConnectionLimits {
            total: 5,
            per_address: 2,
            exempt: Vec::new(),
        };
        let standby = Standby {
            pass_on: Arc::new(|_, _, _| {}),
            public: Arc::new(ConnectionLimiter::new(limits, Arc::default())),
            ops: Arc::new(Semaphore::new(OPS_CONNECTIONS)),
        };
        let of = |last: u8| Some(IpAddr::from([192, 0, 2, last]));
        let acquire = |peer| standby.permit(RouteSet::Public, peer);
        let mut held: Vec<_> = (0..2).map(|_| acquire(of(1)).unwrap()).collect();
        assert!(acquire(of(1)).is_none(), "a third of one address");
        held.extend([
            acquire(of(2)).unwrap(),
            acquire(None).unwrap(),
            acquire(None).unwrap(),
        ]);
        assert!(acquire(of(3)).is_none(), "a sixth in total");
        assert!(standby.permit(RouteSet::Ops, of(1)).is_some());
        held.clear();
        assert!(acquire(of(1)).is_some());
    }
}
