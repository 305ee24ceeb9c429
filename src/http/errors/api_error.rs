//! The error type of all handlers and its JSON form, and the combination of several mistakes of one request.
//!
//! Errors of lower layers never reach a response body. They travel in [`ApiError::cause`], which only the log
//! shows.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use http::{HeaderName, HeaderValue};
use serde::Serialize;

use playgate_config::limits::RETRY_OVERLOAD;
use playgate_types::{Described, JsonType, LimitReached};

pub use crate::errors::code::{ErrorCode, NO_LIVE_RIGHTS_STATUS};

#[derive(Clone, Debug, PartialEq, Eq, Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BlockingSessionBody {
    /// Id used to end the session.
    #[described(JsonType::Named("SessionId"))]
    pub session_id: String,
    /// Device id sent at preflight.
    pub device_id: String,
    /// Device model sent at preflight.
    pub device_model: String,
    /// Device type sent at preflight.
    pub device_type: String,
    /// Id of the asset that is playing.
    #[described(JsonType::Named("AssetId"))]
    pub asset_id: String,
    /// Time at which the session was opened.
    #[described(JsonType::Named("Time"))]
    pub since: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ImportProblem {
    /// Line number, counted from 1, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldProblem {
    pub field: Cow<'static, str>,
    pub message: Cow<'static, str>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub enum Details {
    Fields {
        /// Name of the first field, which the message describes.
        field: Cow<'static, str>,
        problems: Vec<FieldProblem>,
    },
    Attempts {
        attempts_left: u32,
    },
    Retry {
        retry_after: u32,
    },
    Sessions {
        sessions: Vec<BlockingSessionBody>,
    },
    Reason {
        reason: &'static str,
    },
    /// The status of the license server that refused.
    Status {
        status: u16,
    },
    Problems {
        problems: Vec<ImportProblem>,
    },
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

/// An error as the developer of a partner sees it. Most of its fields are boxed, which keeps
/// every `Result` of the HTTP layer small.
pub struct ApiError {
    code: ErrorCode,
    inner: Box<Inner>,
}

impl ApiError {
    /// Creates an error. `message` explains the mistake to the developer of the partner.
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
                // Every 429 and 503 carries `Retry-After`, also where nothing better is known.
                retry_after: overload.then_some(RETRY_OVERLOAD),
                limit: None,
                token_sent: false,
                headers: Vec::new(),
                cause: None,
            }),
        }
    }

    /// Creates an `INVALID_REQUEST` error that names the member, parameter or header.
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

    /// Merges another error of the same request. Field errors are collected and take precedence over errors
    /// about resources; otherwise the first error wins.
    pub fn and(mut self, other: Self) -> Self {
        match (&mut self.inner.details, &other.inner.details) {
            (
                Some(Details::Fields { problems, .. }),
                Some(Details::Fields { problems: more, .. }),
            ) => {
                for problem in more {
                    // A body that is not an object is reported by each read of a member.
                    if !problems.contains(problem) {
                        problems.push(problem.clone());
                    }
                }
                self
            }
            // The caller has to correct the request first, whatever is wrong with what it names.
            (_, Some(Details::Fields { .. })) => other,
            _ => self,
        }
    }

    pub fn fields(&self) -> impl Iterator<Item = &str> {
        let problems = match &self.inner.details {
            Some(Details::Fields { problems, .. }) => problems.as_slice(),
            _ => &[],
        };
        problems.iter().map(|problem| &*problem.field)
    }

    pub fn malformed(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::InvalidRequest, message)
    }

    /// Creates an `INTERNAL` error; `cause` is only logged.
    pub fn internal(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(
            ErrorCode::Internal,
            "internal error; quote the X-Request-Id when you report it",
        )
        .with_cause(cause)
    }

    pub fn overloaded() -> Self {
        Self::new(
            ErrorCode::Overloaded,
            "the service is busy; try again shortly",
        )
    }

    /// Adds the member name to errors with one of `codes`. The domain code that rejected the value does not
    /// know its name in JSON.
    pub fn for_member(self, name: &'static str, codes: &[ErrorCode]) -> Self {
        if codes.contains(&self.code) {
            let message = self.inner.message.clone();
            self.with_problem(name.into(), message)
        } else {
            self
        }
    }

    pub fn with_details(mut self, details: Details) -> Self {
        self.inner.details = Some(details);
        self
    }

    /// Sets `Retry-After`, and `details.retryAfter` unless the error has other details.
    pub fn with_retry_after(mut self, seconds: u32) -> Self {
        self.inner.retry_after = Some(seconds);
        // Other details stay: clients find the seconds in the header too.
        self.inner.details.get_or_insert(Details::Retry {
            retry_after: seconds,
        });
        self
    }

    pub fn with_limit(mut self, limit: LimitReached) -> Self {
        self.inner.limit = Some(limit);
        // `Retry-After: 0` would invite an immediate retry.
        self.with_retry_after(u32::try_from(limit.retry_after.max(1)).unwrap_or(u32::MAX))
    }

    pub fn with_cause(mut self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.inner.cause = Some(cause.into());
        self
    }

    /// Marks a 401 as caused by an invalid token, so that the challenge says `invalid_token`.
    pub fn with_token_sent(mut self) -> Self {
        self.inner.token_sent = true;
        self
    }

    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.inner.headers.push((name, value));
        self
    }

    pub fn headers(&self) -> &[(HeaderName, HeaderValue)] {
        &self.inner.headers
    }

    pub const fn code(&self) -> ErrorCode {
        self.code
    }

    pub fn message(&self) -> &str {
        &self.inner.message
    }

    /// The message without anything that may be a token.
    pub(crate) fn loggable(&self) -> &str {
        // The message of an unknown path repeats the path, which may contain one.
        match self.code == ErrorCode::PathNotFound {
            true => "no route matches",
            false => self.message(),
        }
    }

    pub fn details(&self) -> Option<&Details> {
        self.inner.details.as_ref()
    }

    pub fn retry_after(&self) -> Option<u32> {
        self.inner.retry_after
    }

    pub fn limit(&self) -> Option<&LimitReached> {
        self.inner.limit.as_ref()
    }

    pub fn token_sent(&self) -> bool {
        self.inner.token_sent
    }

    /// The underlying error. It must only be logged.
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

#[derive(Described, Serialize)]
struct ErrorDescription<'a> {
    /// Explanation for developers. Names the field at fault.
    message: &'a str,
    /// Text that may be shown to a viewer. Language: `Accept-Language`, else the user's locale, else the service's default.
    user_message: &'a str,
    /// Stable error code for programs.
    #[described(JsonType::Named("ErrorCode"))]
    code: &'static str,
    /// Additional data. Absent if the code has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[described(JsonType::Named("ErrorDetails"))]
    details: Option<&'a Details>,
}

#[derive(Described, Serialize)]
pub struct ErrorResponse<'a> {
    /// Describes the failure.
    error: ErrorDescription<'a>,
    /// Copy of `error.message`. Present only on the login and password routes, where existing clients read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

impl<'a> ErrorResponse<'a> {
    pub(crate) fn new(error: &'a ApiError, user_message: &'a str, flat: bool) -> Self {
        Self {
            error: ErrorDescription {
                message: error.message(),
                user_message,
                code: error.code().as_str(),
                details: error.details(),
            },
            message: flat.then(|| error.message()),
        }
    }
}

/// Combines several results of one request. All errors are reported, so that a developer, or a user who fills in a
/// form, sees all mistakes together.
pub trait CombineResults {
    type Values;

    fn combine(self) -> Result<Self::Values, ApiError>;
}

macro_rules! combine {
    ($($value:ident)+) => {
        impl<$($value),+> CombineResults for ($(Result<$value, ApiError>,)+) {
            type Values = ($($value,)+);

            #[expect(non_snake_case, reason = "each value has the name of its type")]
            fn combine(self) -> Result<Self::Values, ApiError> {
                match self {
                    ($(Ok($value),)+) => Ok(($($value,)+)),
                    ($($value,)+) => Err(joined([$($value.err()),+])),
                }
            }
        }
    };
}

combine!(A B);
combine!(A B C);
combine!(A B C D);
combine!(A B C D E);
combine!(A B C D E F);
combine!(A B C D E F G);
combine!(A B C D E F G H);
combine!(A B C D E F G H I);

fn joined<const N: usize>(errors: [Option<ApiError>; N]) -> ApiError {
    errors
        .into_iter()
        .flatten()
        .reduce(ApiError::and)
        .unwrap_or_else(|| ApiError::internal("several results without an error"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_error_body_has_the_documented_form() {
        let error = ApiError::field("offset", "must be an integer from -86400 to 0");
        let body = serde_json::to_value(ErrorResponse::new(&error, "Sorry", false)).unwrap();
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
        let flat = serde_json::to_value(ErrorResponse::new(&error, "Sorry", true)).unwrap();
        assert_eq!(flat["message"], flat["error"]["message"]);
    }

    #[test]
    fn details_have_the_documented_names() {
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
            sessions: vec![BlockingSessionBody {
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

    #[test]
    fn field_errors_are_merged_and_precede_not_found() {
        let field = |name| Err::<(), _>(ApiError::field(name, "is missing"));
        let unknown = || Err::<(), _>(ApiError::new(ErrorCode::SessionNotFound, "no such session"));
        assert_eq!((Ok(1), Ok("a")).combine().unwrap(), (1, "a"));
        let error = (unknown(), field("a"), Ok(1), field("b"), field("a")).combine();
        let error = error.unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidRequest);
        assert_eq!(error.message(), "a: is missing");
        let problem = |name| json!({"field": name, "message": "is missing"});
        assert_eq!(
            serde_json::to_value(error.details()).unwrap(),
            json!({"field": "a", "problems": [problem("a"), problem("b")]})
        );
        let error = (unknown(), Ok(())).combine().unwrap_err();
        assert_eq!(error.code(), ErrorCode::SessionNotFound);
    }
}
