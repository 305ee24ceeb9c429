//! The situations of the schedule.

use crate::domain::schedule::{QueryError, ScheduleError};
use crate::http::error::{ApiError, Details, ErrorCode};
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
            QueryError::Livestream => (
                ErrorCode::LivestreamNotFound,
                "no livestream of that id is known",
            ),
            QueryError::Current => (
                ErrorCode::NoCurrentBroadcast,
                "the livestream has no broadcast at that point",
            ),
            QueryError::Broadcast => (
                ErrorCode::BroadcastNotFound,
                "no broadcast of that id is known",
            ),
        };
        Self::new(code, message)
    }
}
