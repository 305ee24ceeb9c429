//! Guides of others: files and addresses that a configuration or an operator names. What comes is
//! read as it arrives; how much, how long and where from is bounded here.
//!
//! Redirects are followed, as publishers use them, but never from https to http, and never from the
//! open net to an address inside of this one: a stranger's server does not choose what we ask here.

use std::fs::{self, File};
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant, UNIX_EPOCH};

use bytes::{Buf as _, Bytes};
use http::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    LAST_MODIFIED, LOCATION, RETRY_AFTER, USER_AGENT,
};
use http::{HeaderMap, HeaderName, Method, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::http_client::{Answer, BadAddress, Broken, Target, WebBody, cause};

/// How large a guide may be, as it is sent.
pub const FETCHED_MAX: u64 = 1024 * 1024 * 1024;
/// Redirects that are followed.
const REDIRECTS: usize = 5;
/// The longest validator that is kept, in bytes; they are an opaque word or a date.
const VALIDATOR_MAX: usize = 512;

/// How long a server may take.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// To accept a connection and to begin its answer.
    pub answer: Duration,
    /// Between two pieces of it.
    pub piece: Duration,
    /// In all.
    pub whole: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(30),
            piece: Duration::from_secs(30),
            // 150 MB at 170 KB/s.
            whole: Duration::from_secs(15 * 60),
        }
    }
}

/// What tells one version of a guide from another, as its server says it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Validators {
    /// `ETag`; of a file its length and time of change.
    pub etag: Option<String>,
    /// `Last-Modified`.
    pub modified: Option<String>,
}

/// What there was to fetch.
pub enum Fetched {
    /// What the validators are of.
    Unchanged,
    /// A guide.
    Guide {
        /// What tells this version from others.
        validators: Validators,
        /// Its bytes; it may fail in the middle.
        body: Box<dyn Read + Send>,
    },
}

/// Why nothing could be fetched. The text is for operators and holds no query: keys stand there.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// An address cannot be used.
    #[error("the address {0}")]
    Address(#[from] BadAddress),
    /// A file cannot be read.
    #[error("{0}")]
    File(io::Error),
    /// Another status than 200.
    #[error("the server answered {status}")]
    Status {
        /// The status.
        status: StatusCode,
        /// How many seconds it wants to be left alone.
        retry_after: Option<u64>,
    },
    /// A redirect that is not followed.
    #[error("the server redirects {0}")]
    Redirect(&'static str),
    /// A coding that was not asked for.
    #[error("the server answered in the coding `{0}`")]
    Coding(String),
    /// Larger than [`FETCHED_MAX`].
    #[error("the guide has over 1 GiB")]
    TooLarge,
    /// No answer.
    #[error("no answer in time")]
    TimedOut,
    /// No connection, or one that broke.
    #[error("no connection: {}", cause(&**.0))]
    Connection(Broken),
}

impl FetchError {
    /// How many seconds the server wants to be left alone.
    #[must_use]
    pub fn retry_after(&self) -> Option<u64> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

/// Fetches guides.
pub trait Fetch: Send + Sync {
    /// Fetches what a place names: an `http` or `https` address, or an absolute path. Blocks until
    /// the answer begins.
    ///
    /// # Errors
    /// [`FetchError`].
    fn fetch(&self, place: &str, known: &Validators) -> Result<Fetched, FetchError>;
}

/// Fetches from the web and from files.
#[derive(Debug)]
pub struct Fetcher {
    /// How long servers may take.
    pub patience: Patience,
    /// How many bytes they may send.
    pub most: u64,
}

impl Default for Fetcher {
    fn default() -> Self {
        Self {
            patience: Patience::default(),
            most: FETCHED_MAX,
        }
    }
}

impl Fetch for Fetcher {
    fn fetch(&self, place: &str, known: &Validators) -> Result<Fetched, FetchError> {
        if place.starts_with('/') {
            return fetch_file(Path::new(place), known);
        }
        let broken = |error: io::Error| FetchError::Connection(error.into());
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(broken)?;
        let until = Instant::now() + self.patience.whole;
        let Some(answer) = runtime.block_on(get(place, known, self.patience))? else {
            return Ok(Fetched::Unchanged);
        };
        Ok(Fetched::Guide {
            validators: validators(&answer.head.headers),
            body: Box::new(WebReader {
                runtime,
                body: answer.body,
                rest: Bytes::new(),
                left: self.most,
                piece: self.patience.piece,
                until,
            }),
        })
    }
}

/// A file: another one when its length or its time of change is another.
fn fetch_file(path: &Path, known: &Validators) -> Result<Fetched, FetchError> {
    let metadata = fs::metadata(path).map_err(FetchError::File)?;
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
    if validators == *known {
        return Ok(Fetched::Unchanged);
    }
    let file = File::open(path).map_err(FetchError::File)?;
    Ok(Fetched::Guide {
        validators,
        body: Box::new(file),
    })
}

/// Gets what is behind an address; nothing if it is what is known already.
///
/// # Errors
/// [`FetchError`].
pub async fn get(
    address: &str,
    known: &Validators,
    patience: Patience,
) -> Result<Option<Answer>, FetchError> {
    let mut address = address.to_owned();
    let mut before: Option<IpAddr> = None;
    for _ in 0..=REDIRECTS {
        let answer = timeout(patience.answer, ask(&address, known, before)).await;
        let answer = answer.map_err(|_| FetchError::TimedOut)??;
        before = Some(answer.peer);
        let headers = &answer.head.headers;
        let status = answer.head.status;
        if status == StatusCode::OK {
            return checked(answer).map(Some);
        }
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
                "to where we do not follow: another scheme, or from https to http",
            ))?;
    }
    Err(FetchError::Redirect("too often"))
}

/// Requests an address; `before` is the server that redirected here.
async fn ask(
    address: &str,
    known: &Validators,
    before: Option<IpAddr>,
) -> Result<Answer, FetchError> {
    let broken = |error: io::Error| FetchError::Connection(error.into());
    let site = Target::parse(address)?;
    // Judged before the connection: even an attempt to connect tells a stranger's server what there
    // is inside, and can change the state of what listens there.
    let addresses = reachable_after(before, site.resolve().await.map_err(broken)?);
    if addresses.is_empty() {
        return Err(FetchError::Redirect("to an address inside of this net"));
    }
    let mut request = site
        .request(Method::GET)
        .header(USER_AGENT, concat!("playgate/", env!("CARGO_PKG_VERSION")))
        .header(ACCEPT_ENCODING, "gzip");
    for (name, value) in [
        (IF_NONE_MATCH, &known.etag),
        (IF_MODIFIED_SINCE, &known.modified),
    ] {
        if let Some(value) = value {
            request = request.header(name, value);
        }
    }
    let request = request.body(Empty::<Bytes>::new());
    let request = request.map_err(|error| FetchError::Connection(error.into()))?;
    site.send_to(&addresses, request)
        .await
        .map_err(FetchError::Connection)
}

/// An answer that can be read: gzip is told by its first bytes, whoever put it there.
fn checked(answer: Answer) -> Result<Answer, FetchError> {
    let headers = &answer.head.headers;
    if let Some(coding) = text(headers, CONTENT_ENCODING) {
        let known = ["gzip", "x-gzip", "identity", ""];
        if !known.contains(&coding.trim().to_ascii_lowercase().as_str()) {
            return Err(FetchError::Coding(coding.to_owned()));
        }
    }
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
    let kept = |name| {
        let value = text(headers, name).filter(|value| value.len() <= VALIDATOR_MAX);
        value.map(str::to_owned)
    };
    Validators {
        etag: kept(ETAG),
        modified: kept(LAST_MODIFIED),
    }
}

/// The address of a redirect: absolute, of another host, of another path, or beside the present one.
fn resolve(address: &str, location: &str) -> Option<String> {
    let (scheme, rest) = address.split_once("://")?;
    let authority = |text: &str| text.split(['/', '?', '#']).next().unwrap_or("").to_owned();
    let location = location.split('#').next().unwrap_or_default();
    if let Some((to, host)) = location.split_once("://") {
        let to = to.to_ascii_lowercase();
        let up = to == "https" || (to == "http" && scheme.eq_ignore_ascii_case("http"));
        return up.then(|| format!("{to}://{host}"));
    }
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
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    Some(format!("{scheme}://{host}{folder}/{location}"))
}

/// The resolved addresses that a request may go to: after a redirect by a server of the open net
/// those of the open net only.
fn reachable_after(before: Option<IpAddr>, mut resolved: Vec<SocketAddr>) -> Vec<SocketAddr> {
    if before.is_some_and(is_open) {
        resolved.retain(|address| is_open(address.ip()));
    }
    resolved
}

/// Whether an address is one of the open net.
fn is_open(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_open_v4(v4),
        IpAddr::V6(v6) => match embedded_v4(v6) {
            Some(v4) => is_open_v4(v4),
            None => {
                let inside = v6.is_unique_local() || v6.is_unicast_link_local();
                !inside && !v6.is_loopback() && !v6.is_unspecified() && !v6.is_multicast()
            }
        },
    }
}

fn is_open_v4(v4: Ipv4Addr) -> bool {
    let [a, b, c, _] = v4.octets();
    // Shared by a provider's customers, protocol assignments, benchmarks, reserved: RFC 6890.
    let special = (a == 100 && (64..128).contains(&b))
        || (a, b, c) == (192, 0, 0)
        || (a == 198 && (18..20).contains(&b))
        || a == 0
        || a >= 240;
    let inside = v4.is_private() || v4.is_link_local() || v4.is_loopback();
    !special && !inside && !v4.is_multicast()
}

/// The IPv4 address that an IPv6 address leads to: mapped, compatible, by NAT64 or by 6to4.
fn embedded_v4(v6: Ipv6Addr) -> Option<Ipv4Addr> {
    let from = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match v6.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            Some(from(high, low))
        }
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => Some(from(high, low)),
        [0x2002, high, low, ..] => Some(from(high, low)),
        _ => None,
    }
}

/// An answer for code that reads and blocks. The connection moves while it is read, and only then.
struct WebReader {
    /// Before the runtime: what is in it goes first.
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
            self.rest = frame.into_data().unwrap_or_default();
            let length = u64::try_from(self.rest.len()).unwrap_or(u64::MAX);
            self.left = self
                .left
                .checked_sub(length)
                .ok_or_else(|| io::Error::other("it sends more than a guide may have"))?;
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
