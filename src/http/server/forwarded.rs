//! Serves connections that another member of a fleet has accepted.

use tokio::io::{AsyncRead, AsyncWrite};

use crate::http::access::local_admin::Administrator;
use crate::http::routing::router::RouteSet;
use crate::http::server::listener::{Acceptor, ListenerOptions};
use crate::types::{ConnectionOrigin, ListenerKind};

/// [`RunningServer::stop`](super::listener::RunningServer::stop) waits until it is dropped.
pub(crate) struct ForwardedConnections(pub(super) Acceptor);

impl ForwardedConnections {
    pub(crate) fn serve<S>(&self, stream: S, origin: ConnectionOrigin)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let routes = match origin.to {
            ListenerKind::Public | ListenerKind::Secure => RouteSet::Public,
            ListenerKind::Ops | ListenerKind::Local => RouteSet::Ops,
        };
        let mut options = ListenerOptions::new(routes);
        if origin.to == ListenerKind::Secure {
            options.tls = self.0.http.services.tls.clone();
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
        // No permit: the member that accepted the connection has counted it.
        self.0
            .serve(stream, origin.from, None, administrator, &options);
    }
}
