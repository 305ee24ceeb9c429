//! The bodies of quality reports and series.

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use crate::operators::asset_names::AssetNames;
use playgate_records::quality::{
    Dimension, Figures, GroupBy, KeyPart, Labels, QualityQuery, QualityReport, ReportRow,
    ViewSummary,
};
use playgate_types::{Described, JsonType, SessionId, UnixSeconds, UserId};

#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
struct QualityFigures<'a> {
    /// Number of playback sessions that a preflight opened.
    attempts: u32,
    /// Number of views with a first frame.
    plays: u32,
    /// Median start-up time in milliseconds, within 1 %. Absent without data.
    #[serde(skip_serializing_if = "Option::is_none")]
    startup_p50_millis: Option<f64>,
    /// 95th percentile of the start-up time in milliseconds, within 1 %. Absent without data.
    #[serde(skip_serializing_if = "Option::is_none")]
    startup_p95_millis: Option<f64>,
    /// Attempts with a failure or a refused license and no first frame.
    start_failures: u32,
    /// Attempts that ended without first frame and without failure.
    exits_before_start: u32,
    /// Plays with a failure after the first frame.
    playback_failures: u32,
    /// Number of waits after the first frame. Waits that a seek causes do not count.
    rebuffer_count: u32,
    /// Waiting time as a part of waiting and playing time, from 0 to 1. Absent without data.
    #[serde(skip_serializing_if = "Option::is_none")]
    rebuffer_ratio: Option<f64>,
    /// Minutes played, without pauses and waits.
    minutes_played: f64,
    /// Mean bit rate in bits per second, weighted by playing time. Absent without data.
    #[serde(skip_serializing_if = "Option::is_none")]
    mean_bitrate: Option<f64>,
    /// The most sessions alive at one instant.
    max_concurrent: u32,
    /// Number of views that failed, by the code of their first failure.
    #[serde(skip_serializing_if = "FailureCodes::is_empty")]
    #[described(JsonType::Map(&JsonType::Integer))]
    failure_codes: FailureCodes<'a>,
}

struct FailureCodes<'a>(&'a [(String, u32)]);

impl FailureCodes<'_> {
    const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for FailureCodes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(code, views)| (code, views)))
    }
}

impl<'a> From<&'a Figures> for QualityFigures<'a> {
    fn from(figures: &'a Figures) -> Self {
        // The percentiles come from a sketch, which does not have more digits.
        let tenth = |value: Option<f64>| value.map(|value| (value * 10.0).round() / 10.0);
        Self {
            attempts: figures.attempts,
            plays: figures.plays,
            startup_p50_millis: tenth(figures.startup_p50_millis),
            startup_p95_millis: tenth(figures.startup_p95_millis),
            start_failures: figures.start_failures,
            exits_before_start: figures.exits_before_start,
            playback_failures: figures.playback_failures,
            rebuffer_count: figures.rebuffer_count,
            rebuffer_ratio: figures.rebuffer_ratio,
            minutes_played: figures.minutes_played,
            mean_bitrate: figures.mean_bitrate.map(f64::round),
            max_concurrent: figures.max_concurrent,
            failure_codes: FailureCodes(&figures.failure_codes),
        }
    }
}

struct RowKey<'a>(&'a [GroupBy], &'a [KeyPart]);

impl Serialize for RowKey<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (by, part) in self.0.iter().zip(self.1) {
            match part {
                // An empty name means that the value is unknown.
                KeyPart::Name(name) if name.is_empty() => {}
                KeyPart::Name(name) => map.serialize_entry(by.as_str(), &**name)?,
                KeyPart::Time(at) => map.serialize_entry(by.as_str(), &at.0)?,
            }
        }
        map.end()
    }
}

#[derive(Described, Serialize)]
pub(crate) struct QualityRow<'a> {
    /// A value for each dimension in `by`; an unknown one is absent. `minute` and `hour` are their start.
    #[described(JsonType::Map(&JsonType::Any))]
    key: RowKey<'a>,
    #[serde(flatten)]
    figures: QualityFigures<'a>,
}

impl<'a> QualityRow<'a> {
    pub(crate) fn new(query: &'a QualityQuery, row: &'a ReportRow) -> Self {
        Self {
            key: RowKey(&query.by, &row.key),
            figures: (&row.figures).into(),
        }
    }
}

#[derive(Described, Serialize)]
pub(crate) struct QualityReportBody<'a, Row: Described> {
    /// Start of the span, a whole minute.
    from: UnixSeconds,
    /// End of the span, exclusive.
    to: UnixSeconds,
    /// Dimensions that the rows are grouped by.
    by: Vec<&'static str>,
    /// The figures of all views.
    total: QualityFigures<'a>,
    /// The figures of each combination of the dimensions in `by`.
    rows: Vec<Row>,
}

impl<'a, Row: Described> QualityReportBody<'a, Row> {
    pub(crate) fn new(
        query: &'a QualityQuery,
        report: &'a QualityReport,
        row: fn(&'a QualityQuery, &'a ReportRow) -> Row,
    ) -> Self {
        Self {
            from: query.from,
            to: query.to,
            by: query.by.iter().map(|by| by.as_str()).collect(),
            total: (&report.total.figures).into(),
            rows: report.rows.iter().map(|of| row(query, of)).collect(),
        }
    }
}

#[derive(Described, Serialize)]
struct QualityPoint<'a> {
    /// Start of the interval that the figures are about.
    at: UnixSeconds,
    #[serde(flatten)]
    figures: QualityFigures<'a>,
}

fn points(row: &ReportRow) -> Vec<QualityPoint<'_>> {
    let points = row.points.iter();
    let point = points.map(|(at, figures)| QualityPoint {
        at: *at,
        figures: figures.into(),
    });
    point.collect()
}

#[derive(Described, Serialize)]
pub(crate) struct QualitySeriesRow<'a> {
    #[serde(flatten)]
    row: QualityRow<'a>,
    /// The figures of the row by time. A time without views has no point.
    points: Vec<QualityPoint<'a>>,
}

#[derive(Described, Serialize)]
pub(crate) struct QualitySeries<'a> {
    #[serde(flatten)]
    report: QualityReportBody<'a, QualitySeriesRow<'a>>,
    /// Length of the interval of a point, in seconds.
    step: i64,
    /// The figures of all views by time. A time without views has no point.
    points: Vec<QualityPoint<'a>>,
}

impl<'a> QualitySeries<'a> {
    pub(crate) fn new(query: &'a QualityQuery, step: i64, report: &'a QualityReport) -> Self {
        Self {
            report: QualityReportBody::new(query, report, |query, row| QualitySeriesRow {
                row: QualityRow::new(query, row),
                points: points(row),
            }),
            step,
            points: points(&report.total),
        }
    }
}

#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QualityView<'a> {
    /// Time at which the view began.
    began: UnixSeconds,
    /// Playback session; absent for events without preflight.
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<SessionId>,
    /// User; absent after an erasure.
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id: Option<UserId>,
    /// E-mail address of the user. Absent after an erasure.
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<String>,
    /// What became of the view so far.
    #[described(JsonType::Named("QualityOutcome"))]
    outcome: &'static str,
    /// Code of the first failure; `license_refused` for a refused license. Absent if there was no failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure_code: Option<&'a str>,
    /// Start-up time in milliseconds, within 1 %. Absent if not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    startup_millis: Option<f64>,
    /// Number of waits after the first frame. Waits that a seek causes do not count.
    rebuffer_count: u32,
    /// Waiting time as a part of waiting and playing time, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    rebuffer_ratio: Option<f64>,
    /// Minutes played, without pauses and waits.
    minutes_played: f64,
    /// Mean bit rate in bits per second, weighted by playing time.
    #[serde(skip_serializing_if = "Option::is_none")]
    mean_bitrate: Option<f64>,
    /// A value for each dimension that is known.
    #[described(JsonType::Map(&JsonType::Any))]
    key: LabelsBody<'a>,
    #[serde(flatten)]
    names: AssetNames,
}

struct LabelsBody<'a>(&'a Labels);

impl Serialize for LabelsBody<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let known = Dimension::ALL.map(|dimension| (dimension.as_str(), self.0.get(dimension)));
        let known = known.iter().filter(|(_, value)| !value.is_empty());
        serializer.collect_map(known.map(|(name, value)| (name, &***value)))
    }
}

impl<'a> QualityView<'a> {
    pub(crate) fn new(view: &'a ViewSummary, email: Option<String>, names: AssetNames) -> Self {
        let figures = QualityFigures::from(&view.figures);
        let code = view.figures.failure_codes.first();
        Self {
            began: view.began,
            session_id: view.session,
            user_id: view.user,
            email,
            outcome: view.outcome.as_str(),
            failure_code: code.map(|(code, _)| code.as_str()),
            startup_millis: figures.startup_p50_millis,
            rebuffer_count: figures.rebuffer_count,
            rebuffer_ratio: figures.rebuffer_ratio,
            minutes_played: figures.minutes_played,
            mean_bitrate: figures.mean_bitrate,
            key: LabelsBody(&view.labels),
            names,
        }
    }
}
