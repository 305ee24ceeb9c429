//! Sends telemetry events to a sink: lines of JSON, by POST. No redirect is followed, and only the status of
//! the response is kept: sinks tend to quote the data they refuse.

use std::time::Duration;

use bytes::Bytes;
use chrono::DateTime;
use http::header::{AUTHORIZATION, CONTENT_TYPE, DATE, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::time::timeout;

use super::http_client::{BadAddress, Broken, RequestTarget, cause};

const TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum size of a response body, in bytes. It is read and discarded.
const ANSWER_MAX: usize = 64 * 1024;

/// Why a batch was not accepted. The texts are for operators and quote nothing of the response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkError {
    /// Retry later, possibly after an operator corrected something. The sink may have accepted the batch.
    Later {
        reason: String,
        /// The sink's `Retry-After`, in seconds.
        wait: Option<u64>,
    },
    /// Rejected permanently: the sink considers the batch malformed or too large.
    Refused(String),
}

impl SinkError {
    fn later(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Later { reason, wait: None }
    }

    fn broken(error: &Broken) -> Self {
        Self::later(format!(
            "cannot connect to the event sink: {}",
            cause(&**error)
        ))
    }
}

pub trait EventSink: Send + Sync {
    fn post(&self, lines: Vec<u8>, key: &str) -> Result<(), SinkError>;

    /// Aborts the request in progress and refuses new ones.
    fn stop(&self);

    /// Accepts requests again.
    fn resume(&self);
}

pub struct HttpSink {
    site: RequestTarget,
    authorization: Option<HeaderValue>,
    timeout: Duration,
    stopped: watch::Sender<bool>,
}

impl HttpSink {
    pub fn new(url: &str, authorization: Option<&str>) -> Result<Self, BadAddress> {
        let authorization = authorization.map(|text| {
            let mut value = HeaderValue::from_str(text)
                .map_err(|_| BadAddress("has an authorization that is not a valid header value"))?;
            // Keeps the password out of `Debug` output.
            value.set_sensitive(true);
            Ok(value)
        });
        Ok(Self {
            site: RequestTarget::parse(url)?,
            authorization: authorization.transpose()?,
            timeout: TIMEOUT,
            stopped: watch::Sender::new(false),
        })
    }

    fn request(&self, lines: Vec<u8>, key: &str) -> Result<Request<Full<Bytes>>, SinkError> {
        let mut request = self
            .site
            .request(Method::POST)
            .header(USER_AGENT, concat!("playgate/", env!("CARGO_PKG_VERSION")))
            .header(CONTENT_TYPE, "application/x-ndjson")
            // The draft standard requires a quoted string.
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
            return Err(from_failure_status(status, &answer.head.headers));
        }
        // The response must be complete: a sink that dies while it answers may not have stored the batch.
        match Limited::new(answer.body, ANSWER_MAX).collect().await {
            // A long body is an accepted batch: the status was a success, and the rest is not read.
            Err(error) if !error.is::<LengthLimitError>() => Err(SinkError::broken(&error)),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

impl EventSink for HttpSink {
    fn post(&self, lines: Vec<u8>, key: &str) -> Result<(), SinkError> {
        let request = self.request(lines, key)?;
        // The caller is a blocking thread, so the request gets its own runtime.
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| SinkError::broken(&error.into()))?;
        let mut stopped = self.stopped.subscribe();
        let result = runtime.block_on(async {
            tokio::select! {
                // A stop wins over a response that arrives at the same time: the batch is then sent again,
                // with the same key.
                biased;
                _ = stopped.wait_for(|stopped| *stopped) => Err(SinkError::later("the server is shutting down")),
                done = timeout(self.timeout, self.exchange(request)) => {
                    done.unwrap_or_else(|_| Err(SinkError::later("the event sink did not answer in time")))
                }
            }
        });
        // Does not wait for a pending name lookup.
        runtime.shutdown_background();
        result
    }

    fn stop(&self) {
        self.stopped.send_replace(true);
    }

    fn resume(&self) {
        self.stopped.send_replace(false);
    }
}

fn from_failure_status(status: StatusCode, headers: &HeaderMap) -> SinkError {
    let reason = format!("the sink answered {}", status.as_u16());
    // Vector, Fluent Bit and the OpenTelemetry collector drop a batch at any 4xx except 408 and 429. Here it is
    // dropped only if the status is about the batch: a wrong password or path will be corrected, and then the
    // batch is wanted.
    match status {
        // These are about the batch itself; sending it again would fail again.
        StatusCode::BAD_REQUEST
        | StatusCode::PAYLOAD_TOO_LARGE
        | StatusCode::UNPROCESSABLE_ENTITY => SinkError::Refused(reason),
        _ if status.is_redirection() => {
            SinkError::later(format!("{reason}, and no redirect is followed"))
        }
        _ => SinkError::Later {
            reason,
            wait: retry_after(headers),
        },
    }
}

fn retry_after(headers: &HeaderMap) -> Option<u64> {
    let text = |name: HeaderName| headers.get(name)?.to_str().ok();
    let asked = text(RETRY_AFTER)?.trim();
    let date = |text: &str| DateTime::parse_from_rfc2822(text).ok();
    // RFC 9110, 10.2.3: a number of seconds, or a date.
    asked.parse().ok().or_else(|| {
        // Both dates come from the sink, so its clock may be wrong.
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
        from_failure_status(StatusCode::from_u16(status).unwrap(), &headers.collect())
    }

    #[test]
    fn only_a_status_about_the_batch_drops_it() {
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
    fn retry_after_is_parsed_in_both_forms() {
        let wait = |headers: &[(HeaderName, &'static str)]| match from_status(429, headers) {
            SinkError::Later { wait, .. } => wait,
            SinkError::Refused(reason) => panic!("{reason}"),
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
    fn a_silent_sink_times_out() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let mut sink = HttpSink::new(&url, None).unwrap();
        sink.timeout = Duration::from_millis(20);
        let unsent = SinkError::later("the event sink did not answer in time");
        assert_eq!(sink.post(b"{}\n".to_vec(), "a"), Err(unsent));
        sink.stop();
        let unsent = SinkError::later("the server is shutting down");
        assert_eq!(sink.post(b"{}\n".to_vec(), "a"), Err(unsent));
    }

    #[test]
    fn invalid_settings_are_reported() {
        for (url, authorization) in [
            ("http://user:secret@sink.example/", None),
            ("/sink", None),
            ("http://sink.example/", Some("a\nb")),
        ] {
            assert!(HttpSink::new(url, authorization).is_err(), "{url}");
        }
    }
}
