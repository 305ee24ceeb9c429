//! The bodies of quality reports and series.

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use crate::operators::asset_names::AssetNames;
use playgate_records::quality::{
    Dimension, Figures, GroupBy, KeyPart, Labels, QualityQuery, QualityReport, ReportRow,
    ViewSummary,
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FiguresBody<'a> {
    attempts: u32,
    plays: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    startup_p50_millis: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    startup_p95_millis: Option<f64>,
    start_failures: u32,
    exits_before_start: u32,
    playback_failures: u32,
    rebuffer_count: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    rebuffer_ratio: Option<f64>,
    minutes_played: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    mean_bitrate: Option<f64>,
    max_concurrent: u32,
    #[serde(skip_serializing_if = "FailureCodes::is_empty")]
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

impl<'a> From<&'a Figures> for FiguresBody<'a> {
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

#[derive(Serialize)]
struct RowBody<'a> {
    key: RowKey<'a>,
    #[serde(flatten)]
    figures: FiguresBody<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    points: Option<Vec<PointBody<'a>>>,
}

#[derive(Serialize)]
struct PointBody<'a> {
    at: i64,
    #[serde(flatten)]
    figures: FiguresBody<'a>,
}

#[derive(Serialize)]
pub(crate) struct ReportBody<'a> {
    from: i64,
    to: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<i64>,
    by: Vec<&'static str>,
    total: FiguresBody<'a>,
    /// The figures of the total over time.
    #[serde(skip_serializing_if = "Option::is_none")]
    points: Option<Vec<PointBody<'a>>>,
    rows: Vec<RowBody<'a>>,
}

impl<'a> ReportBody<'a> {
    pub(crate) fn new(query: &'a QualityQuery, report: &'a QualityReport) -> Self {
        let points = |row: &'a ReportRow| {
            let point = |(at, figures): &'a (playgate_types::UnixSeconds, Figures)| PointBody {
                at: at.0,
                figures: figures.into(),
            };
            query.step.map(|_| row.points.iter().map(point).collect())
        };
        let row = |row: &'a ReportRow| RowBody {
            key: RowKey(&query.by, &row.key),
            figures: (&row.figures).into(),
            points: points(row),
        };
        Self {
            from: query.from.0,
            to: query.to.0,
            step: query.step,
            by: query.by.iter().map(|by| by.as_str()).collect(),
            total: (&report.total.figures).into(),
            points: points(&report.total),
            rows: report.rows.iter().map(row).collect(),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ViewBody<'a> {
    began: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<String>,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure_code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    startup_millis: Option<f64>,
    rebuffer_count: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    rebuffer_ratio: Option<f64>,
    minutes_played: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    mean_bitrate: Option<f64>,
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

impl<'a> ViewBody<'a> {
    pub(crate) fn new(view: &'a ViewSummary, email: Option<String>, names: AssetNames) -> Self {
        let figures = FiguresBody::from(&view.figures);
        let code = view.figures.failure_codes.first();
        Self {
            began: view.began.0,
            session_id: view.session.map(|id| id.to_string()),
            user_id: view.user.map(|id| id.to_string()),
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
