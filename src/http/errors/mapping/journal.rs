//! Maps errors of the request journal to API errors.

use crate::errors::api_error::ApiError;
use playgate_records::journal::JournalError;

impl From<JournalError> for ApiError {
    fn from(error: JournalError) -> Self {
        match error {
            JournalError::Store(error) => error.into(),
            JournalError::Io(_) | JournalError::Stopped => Self::internal(error),
        }
    }
}
