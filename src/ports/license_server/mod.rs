//! Clients of third-party license servers. Their URLs come from the configuration only: nothing that a client
//! sends chooses where to connect, and no redirect is followed.

mod doverunner;
mod message;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use data_encoding::BASE64;
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
/// Maximum concurrent challenges per license server; further ones are refused immediately.
const CHALLENGES_MAX: usize = 256;
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
    /// Any status other than 200, redirects included.
    #[error("the license server answered {0}")]
    Status(StatusCode),
    /// A refusal with a message for the player: a SOAP fault of PlayReady.
    #[error("the license server refused with a SOAP fault")]
    Refused(License),
    #[error("the license server sent an empty response")]
    Empty,
    #[error("the response of the license server exceeds {LICENSE_MAX} bytes")]
    TooLarge,
    #[error("the license server is not asked for a few seconds, because it failed repeatedly")]
    Resting,
    #[error("too many requests already wait for the license server")]
    Busy,
    #[error("cannot connect to the license server")]
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
    pub drm: Drm,
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
    body: ChallengeBody,
    timeout: Duration,
    slots: Semaphore,
    breaker: Mutex<Breaker>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ChallengeBody {
    Plain,
    /// PlayReady, whose refusals are SOAP faults.
    Soap,
    /// FairPlay at DoveRunner: base64 in a form. The response is base64 too.
    Form,
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
            body: match (settings.drm, settings.style) {
                (Drm::Playready, _) => ChallengeBody::Soap,
                (Drm::Fairplay, Style::Doverunner) => ChallengeBody::Form,
                _ => ChallengeBody::Plain,
            },
            timeout: settings.timeout,
            slots: Semaphore::new(CHALLENGES_MAX),
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
        let (media, challenge) = match self.body {
            ChallengeBody::Plain => ("application/octet-stream", challenge),
            ChallengeBody::Soap => ("text/xml; charset=utf-8", challenge),
            ChallengeBody::Form => ("application/x-www-form-urlencoded", in_form(&challenge)),
        };
        let mut request = self.site.request(Method::POST).header(CONTENT_TYPE, media);
        if let Some(query) = self.messenger.query(about) {
            request = request.uri(self.site.with_query(&query));
        }
        if self.body == ChallengeBody::Soap {
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
        let may_be_fault =
            self.body == ChallengeBody::Soap && !status.is_redirection() && is_xml(media.as_ref());
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
        // A player reports an empty license as its own error, which hides the cause.
        if body.is_empty() {
            return Err(UpstreamError::Empty);
        }
        if status == StatusCode::OK {
            return Ok(match self.body {
                ChallengeBody::Form => from_form(body),
                ChallengeBody::Plain | ChallengeBody::Soap => License { media, body },
            });
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

fn in_form(challenge: &[u8]) -> Bytes {
    // A form gives a meaning to these three characters of base64.
    let text = BASE64.encode(challenge);
    let text = text
        .replace('+', "%2B")
        .replace('/', "%2F")
        .replace('=', "%3D");
    format!("spc={text}").into()
}

fn from_form(body: Bytes) -> License {
    // Players expect the license itself. A body that is not base64 is passed on unchanged.
    let decoded = BASE64.decode(body.trim_ascii());
    License {
        media: Some(HeaderValue::from_static("application/octet-stream")),
        body: decoded.map_or(body, Bytes::from),
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
mod tests;
