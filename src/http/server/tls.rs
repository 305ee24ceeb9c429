//! Serves TLS connections: the handshake, within the time-out of the first request head, and then the
//! negotiated protocol.

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsAcceptor;

use crate::connection::shutdown::Shutdown;
use crate::connection::{h1, h2};
use crate::standby::MemberService;
use playgate_config::limits::HEAD_TIME;
use playgate_ports::Tls;
use playgate_ports::tls::H2;

pub(crate) async fn drive<S>(
    stream: S,
    tls: &Tls,
    service: MemberService,
    shutdown: &Shutdown,
    began: Instant,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let acceptor = TlsAcceptor::from(tls.config());
    let shaken = tokio::select! {
        // No request has arrived on this connection, so the client may safely retry elsewhere.
        () = shutdown.closed() => return,
        // The handshake and the first request head share one time-out: a slow handshake gains no time.
        shaken = timeout_at(began + HEAD_TIME, acceptor.accept(stream)) => shaken,
    };
    // The TLS library has sent an alert; a failed handshake needs no log line.
    let Ok(Ok(stream)) = shaken else {
        return;
    };
    // RFC 9113, 3.2: HTTP/2 over TLS is negotiated with ALPN. A client without ALPN speaks HTTP/1.
    if stream.get_ref().1.alpn_protocol() == Some(H2) {
        h2::drive(stream, service, shutdown, began).await;
    } else {
        h1::drive(stream, service, shutdown, began).await;
    }
}
