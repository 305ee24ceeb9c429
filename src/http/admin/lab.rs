//! Handlers of the partner lab.

use crate::http::errors::api_error::{ApiError, ErrorCode};
use crate::services::Services;

/// Checks that this installation may have lab partners.
///
/// # Errors
/// `LAB_NOT_ALLOWED` in production.
pub(super) fn check_environment(services: &Services) -> Result<(), ApiError> {
    if services.allows_lab() {
        return Ok(());
    }
    Err(ApiError::new(
        ErrorCode::LabNotAllowed,
        "lab partners are not allowed in production; set `environment` to staging",
    ))
}
