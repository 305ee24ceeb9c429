//! Serves connections that another member of a fleet has accepted.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::access::local_admin::Administrator;
use crate::route_facts::RouteSet;
use crate::server::acceptor::{Acceptor, ListenerOptions};
use crate::server::connection_limiter::{ConnectionLimiter, ConnectionLimits, ConnectionPermit};
use playgate_types::{ConnectionOrigin, ListenerKind};

/// [`RunningServer::stop`](super::listener::RunningServer::stop) waits until it is dropped.
pub struct ForwardedConnections {
    acceptor: Acceptor,
    /// Separate from the connections of this member: neither kind can use up the places of the other one.
    limiter: Arc<ConnectionLimiter>,
}

impl ForwardedConnections {
    pub(super) fn new(acceptor: Acceptor) -> Self {
        let http = &acceptor.http;
        let limits = ConnectionLimits {
            total: http.services.limits.connections,
            per_address: http.services.limits.connections_per_address,
            exempt: http.settings.trusted_proxies.clone(),
        };
        let limiter = ConnectionLimiter::new(limits, Arc::clone(&http.metrics.connections));
        Self {
            limiter: Arc::new(limiter),
            acceptor,
        }
    }

    /// Counts a connection by the address of its client. Returns `None` over the limits.
    pub fn admit(&self, origin: &ConnectionOrigin) -> Option<ConnectionPermit> {
        let permit = match origin.to {
            ListenerKind::Public | ListenerKind::Secure => self.limiter.acquire(origin.from),
            // The member that accepted it has a low limit for these.
            ListenerKind::Ops | ListenerKind::Local => self.limiter.acquire_total(),
        };
        if permit.is_none() {
            self.acceptor.http.metrics.refused.one();
        }
        permit
    }

    pub fn serve<S>(&self, stream: S, origin: ConnectionOrigin, permit: ConnectionPermit)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let routes = match origin.to {
            ListenerKind::Public | ListenerKind::Secure => RouteSet::Public,
            ListenerKind::Ops | ListenerKind::Local => RouteSet::Ops,
        };
        let mut options = ListenerOptions::new(routes);
        if origin.to == ListenerKind::Secure {
            options.tls = self.acceptor.http.services.tls.clone();
            if options.tls.is_none() {
                tracing::warn!(
                    "closed a TLS connection that another member passed on: this member has no certificate; set `tls.cert` and `tls.key` as on that member"
                );
                return;
            }
        }
        let administrator = match (origin.to, origin.uid) {
            (ListenerKind::Local, Some(uid)) => Some(Administrator { uid }),
            _ => None,
        };
        options.is_http2 = origin.is_multiplexed;
        self.acceptor
            .serve(stream, origin.from, Some(permit), administrator, &options);
    }
}
