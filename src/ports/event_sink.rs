//! The way to a sink of events: lines of JSON, by POST. No redirect is followed, and nothing of what
//! the sink says is kept but its status: sinks like to quote what they refuse.

use std::time::Duration;

use bytes::Bytes;
use chrono::DateTime;
use http::header::{AUTHORIZATION, CONTENT_TYPE, DATE, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::time::timeout;

use super::http_client::{BadAddress, Broken, Target, cause};

/// How long a sink may take to accept a batch and to answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of an answer that are waited for; it is looked at no further than its status.
const ANSWER_MAX: usize = 64 * 1024;

/// Why a batch was not taken. The words are for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkError {
    /// Not now, or not before somebody mends something; whether it was taken may not be known.
    Later {
        /// Why.
        words: String,
        /// How many seconds the sink wants to be left alone.
        wait: Option<u64>,
    },
    /// Not as it is: it is malformed in the sink's eyes, or too large.
    Refused(String),
}

impl SinkError {
    fn later(words: impl Into<String>) -> Self {
        let words = words.into();
        Self::Later { words, wait: None }
    }

    fn broken(error: &Broken) -> Self {
        Self::later(format!("no connection: {}", cause(&**error)))
    }
}

/// Takes events.
pub trait EventSink: Send + Sync {
    /// Sends lines; blocking. The key is the same only for the same lines.
    ///
    /// # Errors
    /// [`SinkError`].
    fn post(&self, lines: Vec<u8>, key: &str) -> Result<(), SinkError>;

    /// Ends what is being sent, and lets nothing more be: the process is about to end.
    fn stop(&self);
}

/// A sink over HTTP.
pub struct HttpSink {
    site: Target,
    authorization: Option<HeaderValue>,
    patience: Duration,
    stopped: watch::Sender<bool>,
}

impl HttpSink {
    /// Prepares the way to the sink; connects nowhere.
    ///
    /// # Errors
    /// [`BadAddress`] says what is wrong with the address or with the value of `Authorization`.
    pub fn new(url: &str, authorization: Option<&str>) -> Result<Self, BadAddress> {
        let authorization = authorization.map(|text| {
            let mut value = HeaderValue::from_str(text)
                .map_err(|_| BadAddress("has an authorization that is no header value"))?;
            value.set_sensitive(true);
            Ok(value)
        });
        Ok(Self {
            site: Target::parse(url)?,
            authorization: authorization.transpose()?,
            patience: PATIENCE,
            stopped: watch::Sender::new(false),
        })
    }

    fn request(&self, lines: Vec<u8>, key: &str) -> Result<Request<Full<Bytes>>, SinkError> {
        let mut request = self
            .site
            .request(Method::POST)
            .header(USER_AGENT, concat!("playgate/", env!("CARGO_PKG_VERSION")))
            .header(CONTENT_TYPE, "application/x-ndjson")
            // A string, as the draft of the standard wants it.
            .header("idempotency-key", format!("\"{key}\""));
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        let request = request.body(Full::new(lines.into()));
        request.map_err(|error| SinkError::broken(&error.into()))
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<(), SinkError> {
        let answer = self.site.send(request).await;
        let answer = answer.map_err(|error| SinkError::broken(&error))?;
        let status = answer.head.status;
        if !status.is_success() {
            return Err(not_taken(status, &answer.head.headers));
        }
        // A sink that dies while it answers may not have kept what it was about to say it has.
        match Limited::new(answer.body, ANSWER_MAX).collect().await {
            Err(error) if !error.is::<LengthLimitError>() => Err(SinkError::broken(&error)),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

impl EventSink for HttpSink {
    fn post(&self, lines: Vec<u8>, key: &str) -> Result<(), SinkError> {
        let request = self.request(lines, key)?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| SinkError::broken(&error.into()))?;
        let mut stopped = self.stopped.subscribe();
        let result = runtime.block_on(async {
            tokio::select! {
                biased;
                _ = stopped.wait_for(|stopped| *stopped) => Err(SinkError::later("the process ends")),
                done = timeout(self.patience, self.exchange(request)) => {
                    done.unwrap_or_else(|_| Err(SinkError::later("no answer in time")))
                }
            }
        });
        // A name that is being looked up would be waited for.
        runtime.shutdown_background();
        result
    }

    fn stop(&self) {
        self.stopped.send_replace(true);
    }
}

/// What a status other than success means.
///
/// Decision: Vector, Fluent Bit and the collector of OpenTelemetry drop a batch at any 4xx but 408 and
/// 429. Here it is refused only where the status speaks of the batch; a password that is wrong, or
/// a path that is not there, somebody mends, and then the batch is wanted.
fn not_taken(status: StatusCode, headers: &HeaderMap) -> SinkError {
    let words = format!("the sink answered {}", status.as_u16());
    match status {
        StatusCode::BAD_REQUEST
        | StatusCode::PAYLOAD_TOO_LARGE
        | StatusCode::UNPROCESSABLE_ENTITY => SinkError::Refused(words),
        _ if status.is_redirection() => {
            SinkError::later(format!("{words}, and no redirect is followed"))
        }
        _ => SinkError::Later {
            words,
            wait: retry_after(headers),
        },
    }
}

/// Seconds, or an instant, which is compared with the sink's own clock.
fn retry_after(headers: &HeaderMap) -> Option<u64> {
    let text = |name: HeaderName| headers.get(name)?.to_str().ok();
    let asked = text(RETRY_AFTER)?.trim();
    let date = |text: &str| DateTime::parse_from_rfc2822(text).ok();
    asked.parse().ok().or_else(|| {
        let wait = date(asked)?.signed_duration_since(date(text(DATE)?)?);
        u64::try_from(wait.num_seconds()).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_status(status: u16, headers: &[(HeaderName, &'static str)]) -> SinkError {
        let headers = headers.iter().cloned();
        let headers = headers.map(|(name, value)| (name, HeaderValue::from_static(value)));
        not_taken(StatusCode::from_u16(status).unwrap(), &headers.collect())
    }

    #[test]
    fn only_what_speaks_of_the_batch_refuses_it() {
        for status in [400, 413, 422] {
            assert!(
                matches!(from_status(status, &[]), SinkError::Refused(_)),
                "{status}"
            );
        }
        for status in [
            301, 307, 401, 403, 404, 405, 407, 408, 415, 429, 500, 501, 503,
        ] {
            assert!(
                matches!(from_status(status, &[]), SinkError::Later { .. }),
                "{status}"
            );
        }
    }

    #[test]
    fn a_sink_says_how_long_it_wants_to_be_left_alone() {
        let wait = |headers: &[(HeaderName, &'static str)]| match from_status(429, headers) {
            SinkError::Later { wait, .. } => wait,
            SinkError::Refused(words) => panic!("{words}"),
        };
        assert_eq!(wait(&[]), None);
        assert_eq!(wait(&[(RETRY_AFTER, "120")]), Some(120));
        assert_eq!(wait(&[(RETRY_AFTER, "soon")]), None);
        let at = (RETRY_AFTER, "Fri, 31 Dec 1999 23:59:59 GMT");
        assert_eq!(wait(std::slice::from_ref(&at)), None);
        let now = (DATE, "Fri, 31 Dec 1999 23:58:29 GMT");
        assert_eq!(wait(&[at.clone(), now]), Some(90));
        let later = (DATE, "Sat, 01 Jan 2000 00:00:00 GMT");
        assert_eq!(wait(&[at, later]), None);
    }

    #[test]
    fn a_sink_that_says_nothing_is_not_waited_for_without_end() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let mut sink = HttpSink::new(&url, None).unwrap();
        sink.patience = Duration::from_millis(20);
        let unsent = SinkError::later("no answer in time");
        assert_eq!(sink.post(b"{}\n".to_vec(), "a"), Err(unsent));
        sink.stop();
        let unsent = SinkError::later("the process ends");
        assert_eq!(sink.post(b"{}\n".to_vec(), "a"), Err(unsent));
    }

    #[test]
    fn what_cannot_be_used_is_told() {
        for (url, authorization) in [
            ("http://user:secret@sink.example/", None),
            ("/sink", None),
            ("http://sink.example/", Some("a\nb")),
        ] {
            assert!(HttpSink::new(url, authorization).is_err(), "{url}");
        }
    }
}
