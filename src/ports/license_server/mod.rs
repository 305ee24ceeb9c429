//! Clients of third-party license servers. Their URLs come from the configuration only: nothing that a client
//! sends chooses where to connect, and no redirect is followed.

mod message;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::http_client::{BadAddress, Broken, RequestTarget};
use crate::types::Drm;

pub(crate) use message::{LicenseSubject, MessageSettings, MessageSigner, Style};

/// Maximum size of a license and of a challenge, in bytes.
pub(crate) const LICENSE_MAX: usize = 64 * 1024;
/// Maximum concurrent challenges per license server; further ones are refused at once.
const AT_ONCE: usize = 256;
/// Consecutive failures after which the circuit breaker opens.
const FAILURES: u32 = 5;
/// How long the circuit breaker stays open.
const REST: Duration = Duration::from_secs(5);

/// A license or certificate, unchanged from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct License {
    pub media: Option<HeaderValue>,
    pub body: Bytes,
}

#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    #[error("no answer in time")]
    TimedOut,
    /// Any status other than 200, redirects included.
    #[error("status {0}")]
    Status(StatusCode),
    /// A refusal with a message for the player: a SOAP fault of PlayReady.
    #[error("a SOAP fault")]
    Refused(License),
    #[error("the response exceeds {LICENSE_MAX} bytes")]
    TooLarge,
    #[error("paused for a few seconds after repeated failures")]
    Resting,
    #[error("too many challenges are waiting for it")]
    Busy,
    #[error("the connection failed")]
    Connection(#[source] Broken),
}

/// The `SOAPAction` of a PlayReady license request.
const ACQUIRE: &str = "\"http://schemas.microsoft.com/DRM/2007/03/protocols/AcquireLicense\"";
/// Contained in every SOAP fault, whatever the namespace prefix.
const FAULT: &[u8] = b"Fault>";

pub(crate) type LicenseFuture<'a> =
    Pin<Box<dyn Future<Output = Result<License, UpstreamError>> + Send + 'a>>;

pub trait LicenseServer: Send + Sync {
    fn license(&self, challenge: Bytes, about: LicenseSubject) -> LicenseFuture<'_>;
}

#[derive(Clone, Default)]
pub struct LicenseServers {
    pub widevine: Option<Arc<dyn LicenseServer>>,
    pub playready: Option<Arc<dyn LicenseServer>>,
    pub fairplay: Option<Arc<dyn LicenseServer>>,
    pub fairplay_certificate: Option<Bytes>,
}

impl LicenseServers {
    #[must_use]
    pub fn get(&self, drm: Drm) -> Option<&dyn LicenseServer> {
        match drm {
            Drm::Widevine => self.widevine.as_deref(),
            Drm::Playready => self.playready.as_deref(),
            Drm::Fairplay => self.fairplay.as_deref(),
            // Playgate issues Clear Key licenses itself.
            Drm::Clearkey | Drm::None => None,
        }
    }
}

#[derive(Clone)]
pub(crate) struct LicenseServerSettings {
    pub url: String,
    pub authorization: Option<String>,
    pub style: Style,
    pub message: MessageSettings,
    /// Whether refusals are SOAP faults, as for PlayReady.
    pub soap: bool,
    pub timeout: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BadLicenseServer(&'static str);

impl From<BadAddress> for BadLicenseServer {
    fn from(BadAddress(what): BadAddress) -> Self {
        Self(what)
    }
}

pub(crate) struct HttpLicenseServer {
    site: RequestTarget,
    authorization: Option<HeaderValue>,
    messenger: MessageSigner,
    soap: bool,
    timeout: Duration,
    slots: Semaphore,
    breaker: Mutex<Breaker>,
}

/// The URL is not printed: its query may contain a key.
impl fmt::Debug for HttpLicenseServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpLicenseServer(…)")
    }
}

#[derive(Default)]
struct Breaker {
    failures: u32,
    rests_until: Option<Instant>,
}

impl HttpLicenseServer {
    pub(crate) fn new(settings: &LicenseServerSettings) -> Result<Self, BadLicenseServer> {
        let bad = BadLicenseServer;
        let authorization = settings.authorization.as_deref().map(|text| {
            let mut value =
                HeaderValue::from_str(text).map_err(|_| bad("is not a valid header value"))?;
            // Keeps the credential out of `Debug` output.
            value.set_sensitive(true);
            Ok::<_, BadLicenseServer>(value)
        });
        Ok(Self {
            site: RequestTarget::parse(&settings.url)?,
            authorization: authorization.transpose()?,
            messenger: MessageSigner::new(settings.style, &settings.message)?,
            soap: settings.soap,
            timeout: settings.timeout,
            slots: Semaphore::new(AT_ONCE),
            breaker: Mutex::default(),
        })
    }

    async fn ask(&self, challenge: Bytes, about: LicenseSubject) -> Result<License, UpstreamError> {
        // Refused rather than queued, so that a slow server cannot pile up requests.
        let _slot = self.slots.try_acquire().map_err(|_| UpstreamError::Busy)?;
        if self.is_breaker_open() {
            return Err(UpstreamError::Resting);
        }
        let request = self.request(challenge, &about)?;
        let asked = tokio::time::timeout(self.timeout, self.exchange(request));
        let result = asked.await.unwrap_or(Err(UpstreamError::TimedOut));
        self.count(&result);
        result
    }

    fn request(
        &self,
        challenge: Bytes,
        about: &LicenseSubject,
    ) -> Result<Request<Full<Bytes>>, UpstreamError> {
        let media = match self.soap {
            true => "text/xml; charset=utf-8",
            false => "application/octet-stream",
        };
        let mut request = self.site.request(Method::POST).header(CONTENT_TYPE, media);
        if self.soap {
            request = request.header("soapaction", ACQUIRE);
        }
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        if let Some((name, value)) = self.messenger.header(about) {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(challenge));
        request.map_err(|error| UpstreamError::Connection(error.into()))
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<License, UpstreamError> {
        let answer = self.site.send(request).await;
        let answer = answer.map_err(UpstreamError::Connection)?;
        let status = answer.head.status;
        let media = answer.head.headers.get(CONTENT_TYPE).cloned();
        // PlayReady sends SOAP faults with an error status. Otherwise the body of an error is not read.
        let may_be_fault = self.soap && !status.is_redirection() && is_xml(media.as_ref());
        if status != StatusCode::OK && !may_be_fault {
            return Err(UpstreamError::Status(status));
        }
        // The license is held in memory for each waiting player: an unlimited body could exhaust it.
        let body = Limited::new(answer.body, LICENSE_MAX).collect().await;
        let body = body.map_err(|error| {
            if error.is::<http_body_util::LengthLimitError>() {
                UpstreamError::TooLarge
            } else {
                UpstreamError::Connection(error)
            }
        })?;
        let body = body.to_bytes();
        if status == StatusCode::OK {
            return Ok(License { media, body });
        }
        Err(match body.windows(FAULT.len()).any(|part| part == FAULT) {
            true => UpstreamError::Refused(License { media, body }),
            false => UpstreamError::Status(status),
        })
    }

    fn is_breaker_open(&self) -> bool {
        let breaker = self.breaker.lock();
        breaker
            .rests_until
            .is_some_and(|until| Instant::now() < until)
    }

    fn count(&self, result: &Result<License, UpstreamError>) {
        let failed = match result {
            // A server that refuses is not down.
            Ok(_) | Err(UpstreamError::Refused(_)) => false,
            // A 4xx is about the request, not about the server's health.
            Err(UpstreamError::Status(status)) => status.is_server_error(),
            Err(_) => true,
        };
        let mut breaker = self.breaker.lock();
        breaker.failures = if failed { breaker.failures + 1 } else { 0 };
        if breaker.failures >= FAILURES {
            *breaker = Breaker {
                // Starts over after the pause, so that one more failure does not open the breaker at once.
                failures: 0,
                rests_until: Some(Instant::now() + REST),
            };
        }
    }
}

fn is_xml(media: Option<&HeaderValue>) -> bool {
    let text = media.and_then(|media| media.to_str().ok());
    let essence = text.and_then(|text| text.split(';').next());
    // Also `application/soap+xml`, the type of SOAP 1.2.
    essence.is_some_and(|essence| essence.trim().to_ascii_lowercase().ends_with("xml"))
}

impl LicenseServer for HttpLicenseServer {
    fn license(&self, challenge: Bytes, about: LicenseSubject) -> LicenseFuture<'_> {
        Box::pin(self.ask(challenge, about))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;
    use crate::types::{AssetId, SessionId, UnixSeconds, UserId};

    fn settings(port: u16) -> LicenseServerSettings {
        LicenseServerSettings {
            url: format!("http://127.0.0.1:{port}/license?tenant=a"),
            authorization: Some("Bearer credential".to_owned()),
            style: Style::Plain,
            message: MessageSettings {
                header: Some("X-Custom-Data".to_owned()),
                ..MessageSettings::default()
            },
            soap: false,
            timeout: Duration::from_millis(500),
        }
    }

    fn about() -> LicenseSubject {
        LicenseSubject {
            user: UserId::from_bytes([1; 16]),
            session: SessionId::from_bytes([2; 16]),
            asset: AssetId::parse("film").unwrap(),
            kids: Vec::new(),
            now: UnixSeconds(0),
        }
    }

    /// A server that reads one request, sends `answer`, and returns the request.
    async fn serve(listener: &TcpListener, answer: &[u8]) -> String {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 4_096];
        let mut length = 0;
        while !request[..length].ends_with(b"challenge") {
            length += stream.read(&mut request[length..]).await.unwrap();
        }
        // The client may close the connection early.
        let _ = stream.write_all(answer).await;
        let _ = stream.shutdown().await;
        String::from_utf8(request[..length].to_vec()).unwrap()
    }

    async fn answered(answer: &[u8]) -> (String, Result<License, UpstreamError>) {
        answered_by(answer, false).await
    }

    async fn answered_by(answer: &[u8], soap: bool) -> (String, Result<License, UpstreamError>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let settings = LicenseServerSettings {
            soap,
            ..settings(port)
        };
        let server = HttpLicenseServer::new(&settings).unwrap();
        tokio::join!(
            serve(&listener, answer),
            server.license(Bytes::from_static(b"challenge"), about())
        )
    }

    #[tokio::test]
    async fn a_challenge_is_sent_unchanged_without_internal_headers() {
        let (request, license) =
            answered(b"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 3\r\n\r\nkey").await;
        let license = license.unwrap();
        assert_eq!(license.body, "key");
        assert_eq!(license.media, Some(HeaderValue::from_static("a/b")));
        assert!(request.starts_with("POST /license?tenant=a HTTP/1.1\r\n"));
        let mut headers: Vec<&str> = request
            .lines()
            .skip(1)
            .take_while(|line| !line.is_empty())
            .filter(|line| !line.starts_with("host: 127.0.0.1:"))
            .collect();
        headers.sort_unstable();
        assert_eq!(
            headers,
            [
                "authorization: Bearer credential",
                "content-length: 9",
                "content-type: application/octet-stream",
                "x-custom-data: eyJhc3NldElkIjoiZmlsbSIsInNlc3Npb25JZCI6IkFnSUNBZ0lDQWdJQ0FnSUNBZ0lDQWciLCJ1c2VySWQiOiJBUUVCQVFFQkFRRUJBUUVCQVFFQkFRIn0=",
            ]
        );
    }

    #[tokio::test]
    async fn failures_are_distinguished() {
        let redirect = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n";
        let (_, result) = answered(redirect).await;
        assert!(matches!(result, Err(UpstreamError::Status(s)) if s == StatusCode::FOUND));
        let large = [
            &b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"[..],
            &vec![b'x'; LICENSE_MAX + 1],
        ]
        .concat();
        let (_, result) = answered(&large).await;
        assert!(matches!(result, Err(UpstreamError::TooLarge)), "{result:?}");
        for broken in [&b"not http\r\n\r\n"[..], b""] {
            let (_, result) = answered(broken).await;
            assert!(matches!(result, Err(UpstreamError::Connection(_))));
        }
        let whole = [
            &b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"[..],
            &vec![b'x'; LICENSE_MAX],
        ]
        .concat();
        let (_, result) = answered(&whole).await;
        assert_eq!(result.unwrap().body.len(), LICENSE_MAX);
    }

    #[tokio::test]
    async fn a_soap_fault_is_passed_to_the_player() {
        const FAULT: &str = "<soap:Envelope><soap:Fault>no</soap:Fault></soap:Envelope>";
        let answer = |status: &str, media: &str, body: &str| {
            let length = body.len();
            format!(
                "HTTP/1.1 {status}\r\nContent-Type: {media}\r\nContent-Length: {length}\r\n\r\n{body}"
            )
        };
        let fault = answer(
            "500 Internal Server Error",
            "text/xml; charset=utf-8",
            FAULT,
        );
        let (request, result) = answered_by(fault.as_bytes(), true).await;
        assert!(request.contains("content-type: text/xml; charset=utf-8\r\n"));
        assert!(request.contains("AcquireLicense"));
        match result {
            Err(UpstreamError::Refused(said)) => assert_eq!(said.body, FAULT),
            other => panic!("{other:?}"),
        }
        for other in [
            answer("500 Oops", "text/html", FAULT),
            answer("500 Oops", "text/xml", "<error/>"),
            answer("302 Found", "text/xml", FAULT),
        ] {
            let (_, result) = answered_by(other.as_bytes(), true).await;
            assert!(matches!(result, Err(UpstreamError::Status(_))), "{other}");
        }
        // Servers of other DRM systems send no SOAP faults.
        let (_, result) = answered(fault.as_bytes()).await;
        assert!(matches!(result, Err(UpstreamError::Status(_))));
    }

    #[tokio::test]
    async fn repeated_failures_open_the_circuit_breaker() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let silent = HttpLicenseServer::new(&LicenseServerSettings {
            timeout: Duration::from_millis(20),
            ..settings(port)
        });
        let silent = silent.unwrap();
        let ask = || silent.license(Bytes::new(), about());
        for _ in 0..FAILURES {
            assert!(matches!(ask().await, Err(UpstreamError::TimedOut)));
        }
        assert!(matches!(ask().await, Err(UpstreamError::Resting)));
    }

    #[test]
    fn urls_are_validated_with_the_settings() {
        for bad in [
            "",
            "license.example",
            "/license",
            "file:///etc/passwd",
            "ftp://license.example/",
            "http://user:secret@license.example/",
        ] {
            let settings = LicenseServerSettings {
                url: bad.to_owned(),
                ..settings(1)
            };
            assert!(HttpLicenseServer::new(&settings).is_err(), "{bad}");
        }
    }
}
