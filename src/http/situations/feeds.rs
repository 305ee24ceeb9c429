//! The situations of the sources of guides. Who reads these is an operator, and has to mend what a
//! source says: its own words are in the message.

use crate::domain::feeds::FeedError;
use crate::http::error::{ApiError, ErrorCode};

impl From<FeedError> for ApiError {
    fn from(error: FeedError) -> Self {
        match error {
            FeedError::NotFound => Self::new(
                ErrorCode::GuideSourceNotFound,
                "the configuration has no source of that name",
            ),
            FeedError::Busy => Self::overloaded(),
            FeedError::Nothing | FeedError::Fetch(_) => Self::new(
                ErrorCode::GuideSourceFailed,
                format!("{error}; nothing was imported"),
            ),
            FeedError::Schedule(error) => error.into(),
            FeedError::Catalog(error) => error.into(),
        }
    }
}
