//! Maps errors of the schedule to API errors.

use crate::errors::api_error::{ApiError, Details, ErrorCode, ImportProblem};
use playgate_domain::schedule::import::GuideError;
use playgate_domain::schedule::{QueryError, ScheduleError};

impl From<ScheduleError> for ApiError {
    fn from(error: ScheduleError) -> Self {
        match error {
            ScheduleError::Guide(error) => Self::new(
                ErrorCode::ImportInvalid,
                format!("{}; nothing was imported", guide_fault(&error)),
            )
            .with_details(Details::Problems {
                problems: vec![problem(&error)],
            }),
            ScheduleError::Store(error) => error.into(),
        }
    }
}

impl From<QueryError> for ApiError {
    fn from(missing: QueryError) -> Self {
        let (code, message) = match missing {
            QueryError::Livestream => (ErrorCode::LivestreamNotFound, "no livestream has this id"),
            QueryError::Current => (
                ErrorCode::NoCurrentBroadcast,
                "the livestream has no broadcast at this time",
            ),
            QueryError::Broadcast => (ErrorCode::BroadcastNotFound, "no broadcast has this id"),
        };
        Self::new(code, message)
    }
}

fn problem(error: &GuideError) -> ImportProblem {
    let line = match error {
        GuideError::Truncated { line } | GuideError::Broken { line, .. } => Some(*line),
        GuideError::Unreadable(_) | GuideError::NotAGuide(_) | GuideError::TooLarge(_) => None,
    };
    ImportProblem {
        line,
        message: guide_fault(error),
    }
}

pub(crate) fn guide_fault(error: &GuideError) -> String {
    match error {
        // The texts of I/O and decompression libraries say nothing to a user, and may contain paths.
        GuideError::Unreadable(_) => {
            "the guide cannot be read or unpacked: send it whole, as plain text, gzip or xz"
                .to_owned()
        }
        GuideError::Truncated { line } => format!(
            "the guide is incomplete: it breaks off at line {line}; get the whole file and import it again"
        ),
        GuideError::Broken { line, what } => format!("the guide is broken at line {line}: {what}"),
        GuideError::NotAGuide(what) => format!("this is not a guide: {what}"),
        GuideError::TooLarge(what) => format!("the guide is too large: {what}"),
    }
}
