//! Requests about telemetry.

use crate::http::errors::api_error::ApiError;
use crate::http::errors::combine::CombineResults;
use crate::http::routing::endpoint::{Input, ParseRequest, Payload};
use crate::types::{UnixSeconds, UserId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExportTelemetryRequest {
    pub from: Option<UnixSeconds>,
    pub to: Option<UnixSeconds>,
    pub user: Option<UserId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReportTelemetryRequest {
    /// Start of the period; 24 hours before `to` if absent.
    pub from: Option<UnixSeconds>,
    /// End of the period, exclusive; now if absent.
    pub to: Option<UnixSeconds>,
}

fn instant(input: &Input<'_>, name: &'static str) -> Result<Option<UnixSeconds>, ApiError> {
    let seconds = input.number(name, 12, "must be a time in Unix seconds")?;
    Ok(seconds.map(UnixSeconds))
}

impl ParseRequest for ExportTelemetryRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let (from, to, user) = (
            instant(input, "from"),
            instant(input, "to"),
            input.query.parsed("user", UserId::parse),
        )
            .combine()?;
        Ok(Self { from, to, user })
    }
}

impl ParseRequest for ReportTelemetryRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let (from, to) = (instant(input, "from"), instant(input, "to")).combine()?;
        Ok(Self { from, to })
    }
}
