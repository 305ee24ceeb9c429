//! A connection over TLS: the handshake, within the time for a first head, and then the protocol that
//! client and server agreed on.

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsAcceptor;

use super::service::Service;
use super::shutdown::Shutdown;
use super::{h1, h2};
use crate::config::limits::HEAD_TIME;
use crate::ports::tls::{H2, Tls};

/// Serves a connection, begun at that instant, until either side has enough of it.
pub(super) async fn drive<S>(
    stream: S,
    tls: &Tls,
    service: Service,
    shutdown: &Shutdown,
    began: Instant,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let acceptor = TlsAcceptor::from(tls.config());
    let shaken = tokio::select! {
        () = shutdown.closed() => return,
        shaken = timeout_at(began + HEAD_TIME, acceptor.accept(stream)) => shaken,
    };
    // Whatever speaks something else has been told so by an alert, and concerns nobody else.
    let Ok(Ok(stream)) = shaken else {
        return;
    };
    if stream.get_ref().1.alpn_protocol() == Some(H2) {
        h2::drive(stream, service, shutdown, began).await;
    } else {
        h1::drive(stream, service, shutdown, began).await;
    }
}
