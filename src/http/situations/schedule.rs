//! The situations of the schedule.

use crate::domain::schedule::{Missing, ScheduleError};
use crate::http::error::{ApiError, Details, ErrorCode};
use crate::http::wire::report;

impl From<ScheduleError> for ApiError {
    fn from(error: ScheduleError) -> Self {
        match error {
            ScheduleError::Guide(error) => Self::new(
                ErrorCode::ImportInvalid,
                format!("{}; nothing was imported", report::guide_fault(&error)),
            )
            .with_details(Details::Problems {
                problems: vec![report::problem(&error)],
            }),
            ScheduleError::Store(error) => error.into(),
        }
    }
}

impl From<Missing> for ApiError {
    fn from(missing: Missing) -> Self {
        let (code, message) = match missing {
            Missing::Livestream => (
                ErrorCode::LivestreamNotFound,
                "no livestream of that id is known",
            ),
            Missing::Current => (
                ErrorCode::NoCurrentBroadcast,
                "the livestream has no broadcast at that point",
            ),
            Missing::Broadcast => (
                ErrorCode::BroadcastNotFound,
                "no broadcast of that id is known",
            ),
        };
        Self::new(code, message)
    }
}
