//! Requests about telemetry.

use playgate_http::routing::endpoint::digits;
use playgate_http::{ApiError, CombineResults, Input, ParseRequest, Payload};
use playgate_records::quality::{Dimension, GroupBy, ViewOutcome};
use playgate_types::time::DAY;
use playgate_types::{Malformed, UnixSeconds, UserId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExportTelemetryRequest {
    pub from: Option<UnixSeconds>,
    pub to: Option<UnixSeconds>,
    pub user: Option<UserId>,
}

/// A quality report over a span of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReportTelemetryRequest {
    /// 24 hours before `to` if absent.
    pub from: Option<UnixSeconds>,
    /// Exclusive; now if absent.
    pub to: Option<UnixSeconds>,
    pub by: Vec<GroupBy>,
    pub filters: Vec<(Dimension, String)>,
}

/// A quality report as a series over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TelemetrySeriesRequest {
    pub report: ReportTelemetryRequest,
    /// Seconds; derived from the span if absent.
    pub step: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TelemetryViewsRequest {
    /// The beginning of time if absent.
    pub from: Option<UnixSeconds>,
    /// Exclusive; now if absent.
    pub to: Option<UnixSeconds>,
    pub filters: Vec<(Dimension, String)>,
    pub outcome: Option<ViewOutcome>,
    pub limit: usize,
}

/// Parses `by`: any number of dimensions, each of which counts once.
fn group_by(input: &Input<'_>, times: bool) -> Result<Vec<GroupBy>, ApiError> {
    let mut by = Vec::new();
    for value in input.query.all("by")? {
        for name in value.split(',') {
            let group = GroupBy::parse(name)
                .filter(|group| times || matches!(group, GroupBy::Dimension(_)));
            let Some(group) = group else {
                let known = Dimension::ALL.map(Dimension::as_str).join(", ");
                let times = if times { ", minute, hour" } else { "" };
                return Err(ApiError::field(
                    "by",
                    format!("must be one of {known}{times}"),
                ));
            };
            if !by.contains(&group) {
                by.push(group);
            }
        }
    }
    if by.contains(&GroupBy::Minute) && by.contains(&GroupBy::Hour) {
        return Err(ApiError::field("by", "must not have both minute and hour"));
    }
    Ok(by)
}

fn filters(input: &Input<'_>) -> Result<Vec<(Dimension, String)>, ApiError> {
    let filter = |text: &str| {
        let (name, value) = text.split_once('=')?;
        Some((Dimension::parse(name)?, value.to_owned()))
    };
    let values = input.query.all("where")?;
    let filters = values.iter().map(|text| {
        filter(text).ok_or_else(|| {
            let known = Dimension::ALL.map(Dimension::as_str).join(", ");
            ApiError::field(
                "where",
                format!("must be KEY=VALUE, and KEY one of {known}"),
            )
        })
    });
    filters.collect()
}

fn report(input: &Input<'_>, times: bool) -> Result<ReportTelemetryRequest, ApiError> {
    let ((from, to), by, filters) =
        (input.time_range(), group_by(input, times), filters(input)).combine()?;
    Ok(ReportTelemetryRequest {
        from,
        to,
        by,
        filters,
    })
}

impl ParseRequest for ExportTelemetryRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let ((from, to), user) = (
            input.time_range(),
            input.query.parsed("user", UserId::parse),
        )
            .combine()?;
        Ok(Self { from, to, user })
    }
}

impl ParseRequest for ReportTelemetryRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        report(input, true)
    }
}

impl ParseRequest for TelemetrySeriesRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let step = input.query.parsed("step", |text| {
            let seconds = digits::<i64>(text);
            let whole = |step: &i64| (60..=366 * DAY).contains(step) && step % 60 == 0;
            seconds
                .filter(whole)
                .ok_or(Malformed("must be whole minutes, in seconds"))
        });
        let (report, step) = (report(input, false), step).combine()?;
        Ok(Self { report, step })
    }
}

impl ParseRequest for TelemetryViewsRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let outcome = input.query.parsed("outcome", |text| {
            ViewOutcome::parse(text).ok_or(Malformed(
                "must be starting, played, start_failed, exited_before_start or playback_failed",
            ))
        });
        let ((from, to), filters, outcome, limit) =
            (input.time_range(), filters(input), outcome, input.page()).combine()?;
        Ok(Self {
            from,
            to,
            filters,
            outcome,
            limit,
        })
    }
}
