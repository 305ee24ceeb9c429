//! HTTP client: one request per connection, over TLS for https URLs. It follows no redirects and keeps no
//! connections.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::HOST;
use http::request::Builder;
use http::{HeaderValue, Method, Request, Uri, response};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::AbortHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use super::client_tls::{ClientTls, system_roots};

pub type Broken = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadAddress(pub &'static str);

pub struct RequestTarget {
    target: Uri,
    host: HeaderValue,
    address: (String, u16),
    tls: Option<(TlsSource, ServerName<'static>)>,
}

enum TlsSource {
    System(TlsConnector),
    Files(Arc<ClientTls>),
}

impl TlsSource {
    fn connector(&self) -> TlsConnector {
        match self {
            Self::System(connector) => connector.clone(),
            Self::Files(files) => files.connector(),
        }
    }
}

impl RequestTarget {
    pub fn parse(url: &str) -> Result<Self, BadAddress> {
        Self::parse_with(url, None)
    }

    /// Same as [`parse`](Self::parse), with authorities and a client certificate from files. Without them, those of the
    /// operating system are trusted.
    pub fn parse_with(url: &str, tls: Option<&Arc<ClientTls>>) -> Result<Self, BadAddress> {
        let bad = BadAddress;
        let url: Uri = url.parse().map_err(|_| bad("is not a URL"))?;
        let authority = url.authority().ok_or(bad("has no valid host"))?;
        // Credentials in a URL end up in logs. `user@host` is also a known trick to disguise a host.
        if authority.as_str().contains('@') {
            return Err(bad("must not contain a user name"));
        }
        // The brackets of an IPv6 address belong to the URL syntax only.
        let name = url.host().unwrap_or_default();
        let name = name
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let (port, tls) = match url.scheme_str() {
            Some("http") => (80, None),
            Some("https") => {
                let server =
                    ServerName::try_from(name.clone()).map_err(|_| bad("has no valid host"))?;
                let source = match tls {
                    Some(tls) => TlsSource::Files(Arc::clone(tls)),
                    None => TlsSource::System(connector()?),
                };
                (443, Some((source, server)))
            }
            _ => return Err(bad("must begin with http:// or https://")),
        };
        let target = url.path_and_query().map_or("/", |path| path.as_str());
        Ok(Self {
            target: target.parse().map_err(|_| bad("is not a URL"))?,
            host: HeaderValue::from_str(authority.as_str())
                .map_err(|_| bad("has no valid host"))?,
            address: (name, url.port_u16().unwrap_or(port)),
            tls,
        })
    }

    pub fn request(&self, method: Method) -> Builder {
        Request::builder()
            .method(method)
            .uri(self.target.clone())
            .header(HOST, self.host.clone())
    }

    /// Path and query.
    pub(crate) fn target(&self) -> String {
        self.target.to_string()
    }

    pub(crate) async fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        let (host, port) = &self.address;
        Ok(lookup_host((host.as_str(), *port)).await?.collect())
    }

    /// Sends a request. Dropping the future, as a timeout does, closes the connection.
    pub async fn send<B>(&self, request: Request<B>) -> Result<ServerResponse, Broken>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Broken>,
    {
        self.send_to(&self.resolve().await?, request).await
    }

    /// Sends a request to the first of these addresses that accepts a connection, for callers that filter the resolved
    /// addresses before connecting.
    pub(crate) async fn send_to<B>(
        &self,
        addresses: &[SocketAddr],
        request: Request<B>,
    ) -> Result<ServerResponse, Broken>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Broken>,
    {
        let stream = TcpStream::connect(addresses).await?;
        // The address that accepted the connection: callers judge redirects by it.
        let peer = stream.peer_addr()?.ip();
        let (mut sender, connection) = self.open(stream).await?;
        let (head, incoming) = sender.send_request(request).await?.into_parts();
        Ok(ServerResponse {
            head,
            body: WebBody {
                incoming,
                _connection: connection,
            },
            peer,
        })
    }

    /// Connects, for several requests one after another.
    pub async fn connect<B>(&self) -> Result<KeptConnection<B>, Broken>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Broken>,
    {
        let stream = TcpStream::connect(&*self.resolve().await?).await?;
        let (sender, connection) = self.open(stream).await?;
        Ok(KeptConnection {
            sender,
            _connection: connection,
        })
    }

    /// Connects, and returns the certificate of the server in DER; `None` without TLS.
    pub async fn certificate(&self) -> Result<Option<Vec<u8>>, Broken> {
        let Some((source, name)) = &self.tls else {
            return Ok(None);
        };
        let stream = TcpStream::connect(&*self.resolve().await?).await?;
        let stream = source.connector().connect(name.clone(), stream).await?;
        let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
        Ok(chain.first().map(|first| first.to_vec()))
    }

    async fn open<B>(&self, stream: TcpStream) -> Result<(SendRequest<B>, Connection), Broken>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Broken>,
    {
        // Head and body may be two writes: Nagle's algorithm would hold the second back until the first is
        // acknowledged.
        stream.set_nodelay(true)?;
        match &self.tls {
            Some((source, name)) => {
                handshake(source.connector().connect(name.clone(), stream).await?).await
            }
            None => handshake(stream).await,
        }
    }

    pub fn address(&self) -> (&str, u16) {
        (&self.address.0, self.address.1)
    }
}

/// A connection that stays open between requests. Dropping it closes it.
pub struct KeptConnection<B> {
    sender: SendRequest<B>,
    _connection: Connection,
}

impl<B: Body<Data = Bytes> + Send + 'static> KeptConnection<B> {
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// The last response must have been read to its end.
    pub async fn send(
        &mut self,
        request: Request<B>,
    ) -> Result<http::Response<Incoming>, hyper::Error> {
        self.sender.ready().await?;
        self.sender.send_request(request).await
    }
}

pub struct ServerResponse {
    pub head: response::Parts,
    pub body: WebBody,
    pub peer: IpAddr,
}

/// The body of a response. Dropping it closes the connection.
pub struct WebBody {
    incoming: Incoming,
    _connection: Connection,
}

impl Body for WebBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.incoming).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

/// The task that drives a connection; dropping it aborts the task.
struct Connection(AbortHandle);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn handshake<S, B>(stream: S) -> Result<(SendRequest<B>, Connection), Broken>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Broken>,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let task = tokio::spawn(async {
        // Its error also reaches the caller, who awaits the response or reads the body.
        let _ = connection.await;
    });
    Ok((sender, Connection(task.abort_handle())))
}

fn connector() -> Result<TlsConnector, BadAddress> {
    let roots = system_roots();
    if roots.is_empty() {
        return Err(BadAddress(
            "needs TLS, but the operating system has no CA certificates",
        ));
    }
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| BadAddress("needs TLS, which is not available"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The URL without its query, for logs and messages: queries may contain keys.
pub fn without_query(address: &str) -> String {
    match address.split_once('?') {
        Some((address, _)) => format!("{address}?…"),
        None => address.to_owned(),
    }
}

pub fn cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    // The outer errors only repeat "client error" and "connect error".
    while let Some(source) = cause.source() {
        cause = source;
    }
    match cause.downcast_ref::<io::Error>().map(io::Error::kind) {
        Some(io::ErrorKind::UnexpectedEof) => "the connection was closed early".to_owned(),
        _ => cause.to_string(),
    }
}

/// Why no connection was made, as a fixed text. The messages of the network stack and of libraries are for
/// the log only.
pub fn no_connection(error: &(dyn std::error::Error + 'static)) -> &'static str {
    let mut next = Some(error);
    while let Some(cause) = next {
        // `io::Error::source` skips the wrapped error itself.
        let io = cause.downcast_ref::<io::Error>();
        let inner = io.and_then(io::Error::get_ref);
        let tls = inner.and_then(|inner| inner.downcast_ref::<tokio_rustls::rustls::Error>());
        match tls.or_else(|| cause.downcast_ref()) {
            Some(tokio_rustls::rustls::Error::InvalidCertificate(_)) => {
                return "the certificate of the server is not trusted";
            }
            Some(_) => return "the TLS handshake with the server failed",
            None => {}
        }
        match io.map(io::Error::kind) {
            Some(io::ErrorKind::ConnectionRefused) => return "the server refuses connections",
            Some(io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof) => {
                return "the server closed the connection early";
            }
            _ => {}
        }
        next = cause.source();
    }
    "the server cannot be reached"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_urls_are_rejected() {
        for bad in [
            "",
            "tv.example",
            "/guide.xml",
            "file:///etc/passwd",
            "ftp://tv.example/",
            "http://user:secret@tv.example/",
        ] {
            assert!(RequestTarget::parse(bad).is_err(), "{bad}");
        }
        let v6 = RequestTarget::parse("http://[::1]:8080/l").unwrap();
        assert_eq!(v6.address(), ("::1", 8080));
        assert_eq!(
            RequestTarget::parse("http://tv.example").unwrap().address(),
            ("tv.example", 80)
        );
    }
}
