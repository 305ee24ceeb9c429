//! Requests about what players reported.

use super::Input;
use crate::http::combine::CombineResults;
use crate::http::error::ApiError;
use crate::types::{UnixSeconds, UserId};

/// GET telemetry/events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportTelemetryRequest {
    /// Received from then on.
    pub from: Option<UnixSeconds>,
    /// Received before then.
    pub to: Option<UnixSeconds>,
    /// Of this user only.
    pub user: Option<UserId>,
}

/// GET telemetry/report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportTelemetryRequest {
    /// Minutes from then on; without it the 24 hours before `to`.
    pub from: Option<UnixSeconds>,
    /// Minutes before then; without it up to now.
    pub to: Option<UnixSeconds>,
}

fn instant(input: &Input<'_>, name: &'static str) -> Result<Option<UnixSeconds>, ApiError> {
    let seconds = input.number(name, 12, "must be a time in Unix seconds")?;
    Ok(seconds.map(UnixSeconds))
}

impl ExportTelemetryRequest {
    pub(super) fn parse(input: &Input<'_>) -> Result<Self, ApiError> {
        let (from, to, user) = (
            instant(input, "from"),
            instant(input, "to"),
            input.query.parsed("user", UserId::parse),
        )
            .combine()?;
        Ok(Self { from, to, user })
    }
}

impl ReportTelemetryRequest {
    pub(super) fn parse(input: &Input<'_>) -> Result<Self, ApiError> {
        let (from, to) = (instant(input, "from"), instant(input, "to")).combine()?;
        Ok(Self { from, to })
    }
}
