//! Refusals of license servers.

use std::fmt;

use chrono::DateTime;
use http::header::{DATE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::License;

/// Contained in every SOAP fault, whatever the namespace prefix.
const FAULT: &[u8] = b"Fault>";
/// Characters of a refusal that the request journal gets.
const SAID_MAX: usize = 200;
/// A longer wait is a mistake of the license server.
const RETRY_MAX: u32 = 3_600;

/// A refusal is no failure: the license server works, and repeating the request is useless.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    pub status: StatusCode,
    /// A message for the player: a SOAP fault of PlayReady.
    pub fault: Option<License>,
    /// What the license server said, for the request journal.
    said: String,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        let said = text.chars().map(|c| if c.is_control() { ' ' } else { c });
        Self {
            status,
            fault: None,
            said: said.take(SAID_MAX).collect::<String>().trim().to_owned(),
        }
    }

    pub(super) fn fault(status: StatusCode, fault: License) -> Self {
        Self {
            status,
            fault: Some(fault),
            said: "a SOAP fault".to_owned(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it answered {}", self.status)?;
        match self.said.as_str() {
            "" => Ok(()),
            said => write!(f, ", {said:?}"),
        }
    }
}

pub(super) fn is_xml(media: Option<&HeaderValue>) -> bool {
    let text = media.and_then(|media| media.to_str().ok());
    let essence = text.and_then(|text| text.split(';').next());
    // Also `application/soap+xml`, the type of SOAP 1.2.
    essence.is_some_and(|essence| essence.trim().to_ascii_lowercase().ends_with("xml"))
}

pub(super) fn is_fault(body: &[u8]) -> bool {
    body.windows(FAULT.len()).any(|part| part == FAULT)
}

pub(super) fn retry_after(headers: &HeaderMap) -> Option<u32> {
    let text = |name: HeaderName| headers.get(name)?.to_str().ok();
    let asked = text(RETRY_AFTER)?.trim();
    let date = |text: &str| DateTime::parse_from_rfc2822(text).ok();
    // RFC 9110, 10.2.3: a number of seconds, or a date.
    let seconds = asked.parse().ok().or_else(|| {
        // Both dates come from the license server, whose clock may be wrong.
        let wait = date(asked)?.signed_duration_since(date(text(DATE)?)?);
        u32::try_from(wait.num_seconds()).ok()
    })?;
    Some(seconds.clamp(1, RETRY_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_a_number_or_a_date() {
        let found = |value: &'static str| {
            let headers = [
                (RETRY_AFTER, HeaderValue::from_static(value)),
                (
                    DATE,
                    HeaderValue::from_static("Sat, 28 Nov 2026 02:00:00 GMT"),
                ),
            ];
            retry_after(&headers.into_iter().collect())
        };
        assert_eq!(found(" 7 "), Some(7));
        assert_eq!(found("0"), Some(1));
        assert_eq!(found("99999999"), Some(RETRY_MAX));
        assert_eq!(found("Sat, 28 Nov 2026 02:01:00 GMT"), Some(60));
        assert_eq!(found("soon"), None);
    }

    #[test]
    fn a_refusal_shows_what_was_said() {
        let refusal = Refusal::new(StatusCode::FORBIDDEN, b"{\"code\":\r\n7}");
        assert_eq!(
            refusal.to_string(),
            r#"it answered 403 Forbidden, "{\"code\":  7}""#
        );
        let silent = Refusal::new(StatusCode::NOT_FOUND, b"");
        assert_eq!(silent.to_string(), "it answered 404 Not Found");
        assert_eq!(
            Refusal::new(StatusCode::GONE, &[b'x'; 999]).said.len(),
            SAID_MAX
        );
    }
}
