//! Fetches EPG files from URLs and paths that the configuration or an operator names. The body is streamed;
//! its size, duration and origin are bounded here.
//!
//! Redirects are followed, because publishers use them, but never from https to http, and never from a public
//! to a private address: a foreign server must not choose internal targets (SSRF).

pub use std::fs::{self, File};
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant, UNIX_EPOCH};

use bytes::{Buf as _, Bytes};
use http::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    LAST_MODIFIED, LOCATION, RETRY_AFTER, USER_AGENT,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::fetch_options::{Cookies, FetchOptions, FetchTimeouts, origin};
use super::http_client::{BadAddress, Broken, RequestTarget, ServerResponse, WebBody, cause};

/// Maximum size of an EPG file as transferred, in bytes.
pub(crate) const FETCHED_MAX: u64 = 1024 * 1024 * 1024;
const REDIRECTS_MAX: usize = 5;
/// Maximum length of a stored validator, in bytes. Validators are opaque tokens or dates.
const VALIDATOR_MAX: usize = 512;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Validators {
    /// `ETag`; for a local file its length and modification time.
    pub etag: Option<String>,
    pub modified: Option<String>,
}

pub enum Fetched {
    Unchanged,
    Guide {
        validators: Validators,
        /// The content; reading may fail in the middle.
        body: Box<dyn Read + Send>,
    },
}

/// Why a fetch failed. The text is for operators and contains no query, because queries may contain keys.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("the address {0}")]
    Address(#[from] BadAddress),
    #[error("{0}")]
    File(io::Error),
    #[error("the server answered {status}")]
    Status {
        status: StatusCode,
        retry_after: Option<u64>,
    },
    #[error("the server redirects {0}")]
    Redirect(&'static str),
    #[error("the server sent the content encoding `{0}`, which was not requested")]
    Coding(String),
    #[error("the EPG file exceeds 1 GiB")]
    TooLarge,
    #[error("the server did not answer in time")]
    TimedOut,
    #[error("cannot connect to the server: {}", cause(&**.0))]
    Connection(Broken),
}

impl FetchError {
    pub fn retry_after(&self) -> Option<u64> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

pub trait Fetch: Send + Sync {
    /// Fetches from `place`: an `http` or `https` URL, or an absolute path. Blocks until the response begins.
    fn fetch(
        &self,
        place: &str,
        options: &FetchOptions,
        known: &Validators,
    ) -> Result<Fetched, FetchError>;
}

#[derive(Debug)]
pub struct Fetcher {
    pub timeouts: FetchTimeouts,
    pub most: u64,
}

impl Default for Fetcher {
    fn default() -> Self {
        Self {
            timeouts: FetchTimeouts::default(),
            most: FETCHED_MAX,
        }
    }
}

impl Fetch for Fetcher {
    fn fetch(
        &self,
        place: &str,
        options: &FetchOptions,
        known: &Validators,
    ) -> Result<Fetched, FetchError> {
        if place.starts_with('/') {
            return fetch_file(Path::new(place), known);
        }
        let broken = |error: io::Error| FetchError::Connection(error.into());
        // Callers are blocking threads. A runtime for each fetch leaves no connection behind on the runtime
        // that serves viewers.
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(broken)?;
        let timeouts = options.timeouts.unwrap_or(self.timeouts);
        let until = Instant::now() + timeouts.whole;
        let answer = match runtime.block_on(get(place, options, known, timeouts)) {
            Ok(Some(answer)) => answer,
            Ok(None) => return Ok(Fetched::Unchanged),
            Err(error) => {
                // Dropping the runtime would wait for a resolution of the name that is still running.
                runtime.shutdown_background();
                return Err(error);
            }
        };
        Ok(Fetched::Guide {
            validators: validators(&answer.head.headers),
            body: Box::new(WebReader {
                runtime,
                body: answer.body,
                rest: Bytes::new(),
                left: self.most,
                piece: timeouts.piece,
                until,
            }),
        })
    }
}

fn fetch_file(path: &Path, known: &Validators) -> Result<Fetched, FetchError> {
    let metadata = fs::metadata(path).map_err(FetchError::File)?;
    // Opening a named pipe would block until something writes to it.
    if !metadata.is_file() {
        let what = io::Error::other("it is not a file");
        return Err(FetchError::File(what));
    }
    let changed = metadata.modified().map_err(FetchError::File)?;
    let changed = changed.duration_since(UNIX_EPOCH).unwrap_or_default();
    let validators = Validators {
        etag: Some(format!("{}-{}", metadata.len(), changed.as_nanos())),
        modified: None,
    };
    // Length and modification time replace a hash: a guide may have 1 GiB, and is checked every interval.
    if validators == *known {
        return Ok(Fetched::Unchanged);
    }
    let file = File::open(path).map_err(FetchError::File)?;
    Ok(Fetched::Guide {
        validators,
        body: Box::new(file),
    })
}

pub async fn get(
    first: &str,
    options: &FetchOptions,
    known: &Validators,
    timeouts: FetchTimeouts,
) -> Result<Option<ServerResponse>, FetchError> {
    let mut address = first.to_owned();
    let mut cookies = Cookies::default();
    // An operator may choose a first target that is private.
    let mut only_public = options.only_public;
    for _ in 0..=REDIRECTS_MAX {
        let mut headers: Vec<_> = cookies.header(origin(&address)).into_iter().collect();
        // Keys and passwords are for the server that the operator has named.
        if origin(&address) == origin(first) {
            headers.extend(options.headers.iter().cloned());
        }
        let answer = timeout(
            timeouts.answer,
            ask(&address, (options.agent(), headers), known, only_public),
        )
        .await;
        let answer = answer.map_err(|_| FetchError::TimedOut)??;
        cookies.learn(origin(&address), &answer.head.headers);
        // The address that was connected to, not another resolution of the name: DNS could answer differently
        // now (rebinding).
        only_public |= is_public(answer.peer);
        let headers = &answer.head.headers;
        let status = answer.head.status;
        if status == StatusCode::OK {
            return checked(answer).map(Some);
        }
        // A 304 is valid only in reply to validators.
        if status == StatusCode::NOT_MODIFIED && *known != Validators::default() {
            return Ok(None);
        }
        let location = headers.get(LOCATION).filter(|_| status.is_redirection());
        let Some(location) = location else {
            return Err(FetchError::Status {
                status,
                retry_after: text(headers, RETRY_AFTER).and_then(|text| text.parse().ok()),
            });
        };
        address = location
            .to_str()
            .ok()
            .and_then(|location| resolve(&address, location))
            .ok_or(FetchError::Redirect(
                "to another scheme, or from https to http; such redirects are not followed",
            ))?;
    }
    Err(FetchError::Redirect("too often"))
}

async fn ask(
    address: &str,
    (agent, headers): (&HeaderValue, Vec<(HeaderName, HeaderValue)>),
    known: &Validators,
    only_public: bool,
) -> Result<ServerResponse, FetchError> {
    let broken = |error: io::Error| FetchError::Connection(error.into());
    let site = RequestTarget::parse(address)?;
    // Filtered before connecting: even a connection attempt reveals internal hosts to a foreign server, and can change
    // the state of a listening service.
    let addresses = reachable(only_public, site.resolve().await.map_err(broken)?);
    if addresses.is_empty() {
        return Err(FetchError::Redirect(
            "to a private address; such redirects are not followed",
        ));
    }
    let mut request = site
        .request(Method::GET)
        .header(USER_AGENT, agent)
        // The importer unpacks gzip itself, by the first bytes: it does not matter whether publisher or
        // server compressed.
        .header(ACCEPT_ENCODING, "gzip");
    for (name, value) in [
        (IF_NONE_MATCH, &known.etag),
        (IF_MODIFIED_SINCE, &known.modified),
    ] {
        if let Some(value) = value {
            request = request.header(name, value);
        }
    }
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let request = request.body(Empty::<Bytes>::new());
    let request = request.map_err(|error| FetchError::Connection(error.into()))?;
    site.send_to(&addresses, request)
        .await
        .map_err(FetchError::Connection)
}

fn checked(answer: ServerResponse) -> Result<ServerResponse, FetchError> {
    let headers = &answer.head.headers;
    if let Some(coding) = text(headers, CONTENT_ENCODING) {
        let known = ["gzip", "x-gzip", "identity", ""];
        if !known.contains(&coding.trim().to_ascii_lowercase().as_str()) {
            return Err(FetchError::Coding(coding.to_owned()));
        }
    }
    // Fails early; the reader enforces the limit in any case.
    let length = text(headers, CONTENT_LENGTH).and_then(|text| text.parse::<u64>().ok());
    if length.is_some_and(|length| length > FETCHED_MAX) {
        return Err(FetchError::TooLarge);
    }
    Ok(answer)
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

fn validators(headers: &HeaderMap) -> Validators {
    // A longer one is not stored: the server chooses it, and it is sent back with each request.
    let kept = |name| {
        let value = text(headers, name).filter(|value| value.len() <= VALIDATOR_MAX);
        value.map(str::to_owned)
    };
    Validators {
        etag: kept(ETAG),
        modified: kept(LAST_MODIFIED),
    }
}

fn resolve(address: &str, location: &str) -> Option<String> {
    let (scheme, rest) = address.split_once("://")?;
    let authority = |text: &str| text.split(['/', '?', '#']).next().unwrap_or("").to_owned();
    // A fragment is not part of a request target (RFC 9110, 7.1).
    let location = location.split('#').next().unwrap_or_default();
    if let Some((to, host)) = location.split_once("://") {
        let to = to.to_ascii_lowercase();
        // After a redirect from https to http, an attacker on the network could replace the guide.
        let up = to == "https" || (to == "http" && scheme.eq_ignore_ascii_case("http"));
        return up.then(|| format!("{to}://{host}"));
    }
    // A reference that keeps only the scheme (RFC 3986, 4.2).
    if location.starts_with("//") {
        return Some(format!("{scheme}:{location}"));
    }
    let host = authority(rest);
    if location.starts_with('/') {
        return Some(format!("{scheme}://{host}{location}"));
    }
    let path = rest.get(host.len()..)?.split('?').next()?;
    if location.starts_with('?') {
        return Some(format!("{scheme}://{host}{path}{location}"));
    }
    // A relative reference replaces the last segment of the path.
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    Some(format!("{scheme}://{host}{folder}/{location}"))
}

fn reachable(only_public: bool, mut resolved: Vec<SocketAddr>) -> Vec<SocketAddr> {
    // A private server may redirect to a private one: both are in the operator's network.
    if only_public {
        resolved.retain(|address| is_public(address.ip()));
    }
    resolved
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        // A translator would forward such an address to an IPv4 host inside the network.
        IpAddr::V6(v6) => match embedded_v4(v6) {
            Some(v4) => is_public_v4(v4),
            None => {
                let inside =
                    v6.is_unique_local() || v6.is_unicast_link_local() || is_special_v6(v6);
                !inside && !v6.is_loopback() && !v6.is_unspecified() && !v6.is_multicast()
            }
        },
    }
}

fn is_special_v6(v6: Ipv6Addr) -> bool {
    match v6.segments() {
        // NAT64 with a prefix of the network (RFC 8215): the position of the IPv4 address is unknown.
        [0x64, 0xff9b, 1, ..] => true,
        // Teredo (RFC 4380): a relay forwards to an IPv4 host that the address names.
        [0x2001, 0, ..] => true,
        // Site-local addresses, deprecated by RFC 3879 and still routed in some networks.
        [first, ..] => first & 0xffc0 == 0xfec0,
    }
}

fn is_public_v4(v4: Ipv4Addr) -> bool {
    let [a, b, c, _] = v4.octets();
    // Carrier-grade NAT, protocol assignments, benchmarks, reserved: RFC 6890.
    let special = (a == 100 && (64..128).contains(&b))
        || (a, b, c) == (192, 0, 0)
        || (a == 198 && (18..20).contains(&b))
        || a == 0
        || a >= 240;
    let inside = v4.is_private() || v4.is_link_local() || v4.is_loopback();
    !special && !inside && !v4.is_multicast()
}

fn embedded_v4(v6: Ipv6Addr) -> Option<Ipv4Addr> {
    let from = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match v6.segments() {
        // IPv4-mapped addresses, and the prefix of NAT64 (RFC 6052).
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            Some(from(high, low))
        }
        // IPv4-compatible addresses. `::` and `::1` are none: their upper half is 0.
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => Some(from(high, low)),
        // 6to4 (RFC 3056).
        [0x2002, high, low, ..] => Some(from(high, low)),
        _ => None,
    }
}

/// A response for blocking readers. The connection makes progress only while it is read.
struct WebReader {
    /// Declared before the runtime: it must be dropped first.
    body: WebBody,
    runtime: Runtime,
    rest: Bytes,
    left: u64,
    piece: Duration,
    until: Instant,
}

impl Read for WebReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            let left = self.until.saturating_duration_since(Instant::now());
            let body = &mut self.body;
            // Both limits apply: the gap between chunks, and the total time.
            let wait = self.piece.min(left);
            let frame = self
                .runtime
                .block_on(async { timeout(wait, body.frame()).await });
            let Ok(frame) = frame else {
                return Err(io::Error::other(
                    "the server stopped sending, or is too slow",
                ));
            };
            let Some(frame) = frame else {
                return Ok(0);
            };
            let frame = frame.map_err(|error| io::Error::other(cause(&error)))?;
            // A frame of trailers holds no data: the loop waits for the next frame.
            self.rest = frame.into_data().unwrap_or_default();
            let length = u64::try_from(self.rest.len()).unwrap_or(u64::MAX);
            // Counts what arrives: `Content-Length` may be absent or wrong.
            self.left = self
                .left
                .checked_sub(length)
                .ok_or_else(|| io::Error::other("the response exceeds the size limit"))?;
        }
        let length = self.rest.len().min(buffer.len());
        self.rest
            .copy_to_slice(buffer.get_mut(..length).unwrap_or_default());
        Ok(length)
    }
}

#[cfg(test)]
#[path = "fetch_tests.rs"]
mod tests;
