//! Requests of the administration interface.

pub(crate) mod backups;
pub(crate) mod conformance;
pub(crate) mod content;
pub(crate) mod lab;
pub(crate) mod requests;
pub(crate) mod rights;
pub(crate) mod schedule;
pub(crate) mod system;
pub(crate) mod telemetry;
pub(crate) mod users;

use crate::http::errors::api_error::{ApiError, ErrorCode};

/// An id in a path that cannot be parsed cannot exist: it is answered as an unknown one.
fn known<T, E>(read: Result<T, E>, code: ErrorCode) -> Result<T, ApiError> {
    read.map_err(|_| {
        let what = code.as_str().trim_end_matches("_NOT_FOUND");
        ApiError::new(
            code,
            format!("there is no such {}", what.to_ascii_lowercase()),
        )
    })
}
