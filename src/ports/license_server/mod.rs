//! Clients of third-party license servers. Their URLs come from the configuration only: nothing that a client
//! sends chooses where to connect, and no redirect is followed.

mod doverunner;
mod forms;
mod message;
mod refusal;
mod subject;

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

use super::http_client::{BadAddress, Broken, RequestTarget};
use playgate_types::Drm;

pub use forms::SpcForm;
use forms::{AnswerForm, Outgoing};
pub use message::{MessageSigner, Style};
pub use refusal::Refusal;
pub use subject::{LicenseSubject, MessageSettings};

/// Maximum size of a license and of a challenge, in bytes.
pub(crate) const LICENSE_MAX: usize = 64 * 1024;
const FAILURES_MAX: u32 = 5;
/// How long the circuit breaker stays open.
const BREAKER_OPEN_TIME: Duration = Duration::from_secs(5);

/// A license or certificate, unchanged from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct License {
    pub media: Option<HeaderValue>,
    pub body: Bytes,
}

#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    #[error("the license server did not answer in time")]
    TimedOut,
    /// Neither 200 nor a refusal: 5xx, and redirects.
    #[error("the license server answered {0}")]
    Status(StatusCode),
    #[error("the license server refused: {0}")]
    Refused(Refusal),
    /// 429. The number of seconds is that of the license server.
    #[error("the license server limits requests: it answered 429")]
    Limited(Option<u32>),
    #[error("the license server sent an empty response")]
    Empty,
    #[error("the response of the license server exceeds {LICENSE_MAX} bytes")]
    TooLarge,
    #[error("the license server is not asked for a few seconds, because it failed repeatedly")]
    Resting,
    #[error("cannot connect to the license server")]
    Connection(#[source] Broken),
}

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
pub struct LicenseServerSettings {
    pub url: String,
    pub authorization: Option<String>,
    pub style: Style,
    pub message: MessageSettings,
    pub drm: Drm,
    /// For FairPlay. `None` means that of the style.
    pub spc: Option<SpcForm>,
    pub timeout: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadLicenseServer(&'static str);

impl From<BadAddress> for BadLicenseServer {
    fn from(BadAddress(what): BadAddress) -> Self {
        Self(what)
    }
}

pub struct HttpLicenseServer {
    site: RequestTarget,
    authorization: Option<HeaderValue>,
    messenger: MessageSigner,
    drm: Drm,
    spc: SpcForm,
    timeout: Duration,
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
    pub fn new(settings: &LicenseServerSettings) -> Result<Self, BadLicenseServer> {
        let bad = BadLicenseServer;
        let authorization = settings.authorization.as_deref().map(|text| {
            let mut value =
                HeaderValue::from_str(text).map_err(|_| bad("is not a valid header value"))?;
            // Keeps the credential out of `Debug` output.
            value.set_sensitive(true);
            Ok::<_, BadLicenseServer>(value)
        });
        if settings.style == Style::Ezdrm
            && settings.drm != Drm::Fairplay
            && !settings.url.contains("pX=")
        {
            return Err(bad("needs `pX` in the query of `url` for style `ezdrm`"));
        }
        Ok(Self {
            site: RequestTarget::parse(&settings.url)?,
            authorization: authorization.transpose()?,
            messenger: MessageSigner::new(settings.style, settings.drm, &settings.message)?,
            drm: settings.drm,
            spc: settings.spc.unwrap_or(settings.style.spc_form()),
            timeout: settings.timeout,
            breaker: Mutex::default(),
        })
    }

    async fn ask(&self, challenge: Bytes, about: LicenseSubject) -> Result<License, UpstreamError> {
        if self.is_breaker_open() {
            return Err(UpstreamError::Resting);
        }
        let challenge = match self.drm {
            Drm::Playready => Outgoing::soap(challenge),
            Drm::Fairplay => Outgoing::spc(challenge, self.spc),
            Drm::Widevine | Drm::Clearkey | Drm::None => Outgoing::bytes(challenge),
        };
        let form = challenge.answer;
        let request = self.request(challenge, &about)?;
        let asked = tokio::time::timeout(self.timeout, self.exchange(request, form));
        let result = asked.await.unwrap_or(Err(UpstreamError::TimedOut));
        self.count(&result);
        result
    }

    fn request(
        &self,
        challenge: Outgoing,
        about: &LicenseSubject,
    ) -> Result<Request<Full<Bytes>>, UpstreamError> {
        let mut request = self.site.request(Method::POST);
        if let Some(target) = self.messenger.target(&self.site, about) {
            request = request.uri(target);
        }
        request = request.header(CONTENT_TYPE, challenge.media);
        if self.drm == Drm::Playready {
            request = request.header("soapaction", forms::soap_action(&challenge.body));
        }
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        if let Some((name, value)) = self.messenger.header(about) {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(challenge.body));
        request.map_err(|error| UpstreamError::Connection(error.into()))
    }

    async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
        form: AnswerForm,
    ) -> Result<License, UpstreamError> {
        let answer = self.site.send(request).await;
        let answer = answer.map_err(UpstreamError::Connection)?;
        let status = answer.head.status;
        let media = answer.head.headers.get(CONTENT_TYPE).cloned();
        if status == StatusCode::TOO_MANY_REQUESTS {
            return Err(UpstreamError::Limited(refusal::retry_after(
                &answer.head.headers,
            )));
        }
        // PlayReady sends SOAP faults with any status.
        let may_be_fault = self.drm == Drm::Playready
            && !status.is_redirection()
            && refusal::is_xml(media.as_ref());
        if status != StatusCode::OK && !status.is_client_error() && !may_be_fault {
            return Err(UpstreamError::Status(status));
        }
        // The license is held in memory for each waiting player: an unlimited body could exhaust it.
        let body = Limited::new(answer.body, LICENSE_MAX).collect().await;
        let body = match body {
            Ok(body) => body.to_bytes(),
            // The status of a refusal says enough.
            Err(_) if status.is_client_error() => Bytes::new(),
            Err(error) if error.is::<http_body_util::LengthLimitError>() => {
                return Err(UpstreamError::TooLarge);
            }
            Err(error) => return Err(UpstreamError::Connection(error)),
        };
        if may_be_fault && refusal::is_fault(&body) {
            let fault = License { media, body };
            return Err(UpstreamError::Refused(Refusal::fault(status, fault)));
        }
        if status.is_client_error() {
            return Err(UpstreamError::Refused(Refusal::new(status, &body)));
        }
        if status != StatusCode::OK {
            return Err(UpstreamError::Status(status));
        }
        // A player reports an empty license as its own error, which hides the cause.
        if body.is_empty() {
            return Err(UpstreamError::Empty);
        }
        let license = License { media, body };
        forms::license(self.drm, form, license)
            .map_err(|said| UpstreamError::Refused(Refusal::new(status, said.as_bytes())))
    }

    fn is_breaker_open(&self) -> bool {
        let breaker = self.breaker.lock();
        breaker
            .rests_until
            .is_some_and(|until| Instant::now() < until)
    }

    fn count(&self, result: &Result<License, UpstreamError>) {
        // Any response shows that the server is reached. A 5xx may be about the challenge, which a viewer chooses:
        // one viewer must not pause the licenses of all.
        let failed = matches!(
            result,
            Err(UpstreamError::TimedOut | UpstreamError::Connection(_))
        );
        let mut breaker = self.breaker.lock();
        breaker.failures = if failed { breaker.failures + 1 } else { 0 };
        if breaker.failures >= FAILURES_MAX {
            *breaker = Breaker {
                // Starts over after the pause, so that a single failure does not open the breaker again.
                failures: 0,
                rests_until: Some(Instant::now() + BREAKER_OPEN_TIME),
            };
        }
    }
}

impl LicenseServer for HttpLicenseServer {
    fn license(&self, challenge: Bytes, about: LicenseSubject) -> LicenseFuture<'_> {
        Box::pin(self.ask(challenge, about))
    }
}

#[cfg(test)]
mod tests;
