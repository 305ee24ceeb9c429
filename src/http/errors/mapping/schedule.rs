//! Maps errors of the schedule to API errors.

use crate::domain::schedule::{QueryError, ScheduleError};
use crate::http::errors::api_error::{ApiError, Details, ErrorCode};
use crate::http::wire::import_report;

impl From<ScheduleError> for ApiError {
    fn from(error: ScheduleError) -> Self {
        match error {
            ScheduleError::Guide(error) => Self::new(
                ErrorCode::ImportInvalid,
                format!(
                    "{}; nothing was imported",
                    import_report::guide_fault(&error)
                ),
            )
            .with_details(Details::Problems {
                problems: vec![import_report::problem(&error)],
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
