//! The error that every handler answers with, and its one shape on the wire.
//!
//! Nothing of a lower layer reaches a body: what went wrong beneath travels in
//! [`ApiError::cause`], which only the log sees.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use http::{HeaderName, HeaderValue};
use serde::Serialize;

pub use super::error_code::{ErrorCode, NO_LIVE_RIGHTS_STATUS};
use crate::config::limits::RETRY_OVERLOAD;
use crate::types::LimitReached;

/// A playback session that stands in the way of another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionInTheWay {
    /// Its id.
    pub session_id: String,
    /// The device that its preflight named.
    pub device_id: String,
    /// The device model that its preflight named.
    pub device_model: String,
    /// The device type that its preflight named.
    pub device_type: String,
    /// What it plays.
    pub asset_id: String,
    /// Its start, in Unix seconds.
    pub since: i64,
}

/// A mistake in an imported file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ImportProblem {
    /// The line, counted from 1, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// What is wrong.
    pub message: String,
}

/// What is wrong with a member, a parameter or a header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldProblem {
    /// Its name on the wire.
    pub field: Cow<'static, str>,
    /// What is wrong with it.
    pub message: Cow<'static, str>,
}

/// The data of an error.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub enum Details {
    /// The members, parameters and headers that are at fault.
    Fields {
        /// The name of the first, which the message is about.
        field: Cow<'static, str>,
        /// All of them.
        problems: Vec<FieldProblem>,
    },
    /// How many more wrong entries are allowed.
    Attempts {
        /// Their number.
        attempts_left: u32,
    },
    /// When to try again.
    Retry {
        /// Seconds from now.
        retry_after: u32,
    },
    /// The sessions that fill the user's streams.
    Sessions {
        /// Oldest first.
        sessions: Vec<SessionInTheWay>,
    },
    /// Why a session has ended.
    Reason {
        /// A word of a closed list.
        reason: &'static str,
    },
    /// The mistakes of an imported file.
    Problems {
        /// In the order of the file.
        problems: Vec<ImportProblem>,
    },
    /// The report of an operator's command.
    Report(serde_json::Value),
}

struct Inner {
    message: Cow<'static, str>,
    details: Option<Details>,
    retry_after: Option<u32>,
    limit: Option<LimitReached>,
    token_sent: bool,
    headers: Vec<(HeaderName, HeaderValue)>,
    cause: Option<Box<dyn Error + Send + Sync>>,
}

/// An error as a partner's developer sees it. Small, because every `Result` of the front carries
/// the room for one.
pub struct ApiError {
    code: ErrorCode,
    inner: Box<Inner>,
}

impl ApiError {
    /// An error of `code`; `message` tells the partner's developer what was wrong.
    pub fn new(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        let overload = matches!(
            code,
            ErrorCode::Overloaded
                | ErrorCode::DeadlineExceeded
                | ErrorCode::StoreUnavailable
                | ErrorCode::RateLimited
                | ErrorCode::TooManyAttempts
                | ErrorCode::PinCodeLocked
        );
        Self {
            code,
            inner: Box::new(Inner {
                message: message.into(),
                details: None,
                retry_after: overload.then_some(RETRY_OVERLOAD),
                limit: None,
                token_sent: false,
                headers: Vec::new(),
                cause: None,
            }),
        }
    }

    /// `INVALID_REQUEST` that names the member, parameter or header at fault.
    pub fn field(field: impl Into<Cow<'static, str>>, why: impl Into<Cow<'static, str>>) -> Self {
        let (field, why) = (field.into(), why.into());
        let message = format!("{field}: {why}");
        Self::new(ErrorCode::InvalidRequest, message).with_problem(field, why)
    }

    fn with_problem(self, field: Cow<'static, str>, message: Cow<'static, str>) -> Self {
        let problem = FieldProblem {
            field: field.clone(),
            message,
        };
        self.with_details(Details::Fields {
            field,
            problems: vec![problem],
        })
    }

    /// Joins another error of the same request. Of what is wrong with its fields all is reported, and
    /// before what cannot be found or is not allowed; otherwise the first error stays.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        match (&mut self.inner.details, &other.inner.details) {
            (
                Some(Details::Fields { problems, .. }),
                Some(Details::Fields { problems: more, .. }),
            ) => {
                for problem in more {
                    if !problems.contains(problem) {
                        problems.push(problem.clone());
                    }
                }
                self
            }
            (_, Some(Details::Fields { .. })) => other,
            _ => self,
        }
    }

    /// The fields at fault.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        let problems = match &self.inner.details {
            Some(Details::Fields { problems, .. }) => problems.as_slice(),
            _ => &[],
        };
        problems.iter().map(|problem| &*problem.field)
    }

    /// `INVALID_REQUEST` about the request as a whole.
    pub fn malformed(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::InvalidRequest, message)
    }

    /// `INTERNAL`; `cause` goes to the log.
    pub fn internal(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(ErrorCode::Internal, "an internal error").with_cause(cause)
    }

    /// `OVERLOADED`: a lane is full.
    #[must_use]
    pub fn overloaded() -> Self {
        Self::new(
            ErrorCode::Overloaded,
            "the service is busy; try again shortly",
        )
    }

    /// Names the member at fault, where the code is one of those that are about it: what refused its
    /// value does not know what it is called on the wire.
    #[must_use]
    pub fn for_member(self, name: &'static str, codes: &[ErrorCode]) -> Self {
        if codes.contains(&self.code) {
            let message = self.inner.message.clone();
            self.with_problem(name.into(), message)
        } else {
            self
        }
    }

    /// Adds data.
    #[must_use]
    pub fn with_details(mut self, details: Details) -> Self {
        self.inner.details = Some(details);
        self
    }

    /// Tells when to try again: in `Retry-After`, and in `details` unless they say something else.
    #[must_use]
    pub fn with_retry_after(mut self, seconds: u32) -> Self {
        self.inner.retry_after = Some(seconds);
        self.inner.details.get_or_insert(Details::Retry {
            retry_after: seconds,
        });
        self
    }

    /// Names the limit that was reached, and tells when to try again.
    #[must_use]
    pub fn with_limit(mut self, limit: LimitReached) -> Self {
        self.inner.limit = Some(limit);
        self.with_retry_after(u32::try_from(limit.retry_after.max(1)).unwrap_or(u32::MAX))
    }

    /// Keeps what went wrong beneath, for the log.
    #[must_use]
    pub fn with_cause(mut self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.inner.cause = Some(cause.into());
        self
    }

    /// Marks a 401 as about a token that was sent, so that the challenge says `invalid_token`.
    #[must_use]
    pub fn with_token_sent(mut self) -> Self {
        self.inner.token_sent = true;
        self
    }

    /// Adds a header to the answer.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.inner.headers.push((name, value));
        self
    }

    /// The headers that the answer has beside those of every error.
    #[must_use]
    pub fn headers(&self) -> &[(HeaderName, HeaderValue)] {
        &self.inner.headers
    }

    /// The code.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        self.code
    }

    /// What was wrong, for the partner's developer.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.inner.message
    }

    /// The data.
    #[must_use]
    pub fn details(&self) -> Option<&Details> {
        self.inner.details.as_ref()
    }

    /// Seconds after which to try again.
    #[must_use]
    pub fn retry_after(&self) -> Option<u32> {
        self.inner.retry_after
    }

    /// The limit that was reached.
    #[must_use]
    pub fn limit(&self) -> Option<&LimitReached> {
        self.inner.limit.as_ref()
    }

    /// Whether a 401 is about a token that was sent.
    #[must_use]
    pub fn token_sent(&self) -> bool {
        self.inner.token_sent
    }

    /// What went wrong beneath, for the log alone.
    #[must_use]
    pub fn cause(&self) -> Option<&(dyn Error + Send + Sync)> {
        self.inner.cause.as_deref()
    }
}

impl fmt::Debug for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiError")
            .field("code", &self.code)
            .field("message", &self.inner.message)
            .field("details", &self.inner.details)
            .finish_non_exhaustive()
    }
}

#[derive(Serialize)]
struct ErrorObject<'a> {
    message: &'a str,
    user_message: &'a str,
    code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<&'a Details>,
}

/// The body of an error: one shape on every route.
#[derive(Serialize)]
pub struct ErrorBody<'a> {
    error: ErrorObject<'a>,
    /// On the login and password routes alone: clients of such services read it here.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

impl<'a> ErrorBody<'a> {
    /// The body of `error`, with `user_message` for the viewer; `flat` repeats the message at top
    /// level.
    #[must_use]
    pub fn new(error: &'a ApiError, user_message: &'a str, flat: bool) -> Self {
        Self {
            error: ErrorObject {
                message: error.message(),
                user_message,
                code: error.code().as_str(),
                details: error.details(),
            },
            message: flat.then(|| error.message()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_has_one_shape() {
        let error = ApiError::field("offset", "must be an integer from -86400 to 0");
        let body = serde_json::to_value(ErrorBody::new(&error, "Sorry", false)).unwrap();
        assert_eq!(
            body,
            serde_json::json!({"error": {
                "message": "offset: must be an integer from -86400 to 0",
                "user_message": "Sorry",
                "code": "INVALID_REQUEST",
                "details": {
                    "field": "offset",
                    "problems": [{
                        "field": "offset",
                        "message": "must be an integer from -86400 to 0",
                    }],
                },
            }})
        );
        let flat = serde_json::to_value(ErrorBody::new(&error, "Sorry", true)).unwrap();
        assert_eq!(flat["message"], flat["error"]["message"]);
    }

    #[test]
    fn data_is_named_as_decided() {
        let wrong = ApiError::new(ErrorCode::PinCodeWrong, "the PIN is wrong")
            .with_details(Details::Attempts { attempts_left: 3 });
        assert_eq!(
            serde_json::to_value(wrong.details()).unwrap(),
            serde_json::json!({"attemptsLeft": 3})
        );
        let later = ApiError::new(ErrorCode::TooManyAttempts, "later").with_retry_after(60);
        assert_eq!(later.retry_after(), Some(60));
        assert_eq!(
            serde_json::to_value(later.details()).unwrap(),
            serde_json::json!({"retryAfter": 60})
        );
        let full = Details::Sessions {
            sessions: vec![SessionInTheWay {
                session_id: "s".into(),
                device_id: "d".into(),
                device_model: "m".into(),
                device_type: "t".into(),
                asset_id: "a".into(),
                since: 5,
            }],
        };
        assert_eq!(
            serde_json::to_value(full).unwrap(),
            serde_json::json!({"sessions": [{
                "sessionId": "s", "deviceId": "d", "deviceModel": "m", "deviceType": "t",
                "assetId": "a", "since": 5
            }]})
        );
    }
}
