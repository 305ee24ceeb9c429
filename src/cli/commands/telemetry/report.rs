//! `playgate telemetry report`: quality figures as a table, JSON, CSV or a chart.

use std::cmp::Reverse;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::chart;
use super::csv::{self, Separator};
use crate::client::time_arg::{TimeArg, TimeRange, server_time};
use crate::client::{path, with_query};
use crate::global::Global;
use crate::output::members::{elements, number, texts};
use crate::output::{self, CommandResult};
use playgate_types::parse_span;

#[derive(Args)]
pub(crate) struct ReportArgs {
    /// Group by: asset, livestream, platform, deviceType, deviceModel, appVersion, partner, protocol, drm, country,
    /// minute, hour; may be repeated
    #[arg(long, value_name = "DIMENSION")]
    by: Vec<String>,
    /// Only views with this value; may be repeated
    #[arg(long = "where", value_name = "KEY=VALUE")]
    filters: Vec<String>,
    /// The time span up to now, such as 6h [default: 24h]
    #[arg(long, value_name = "SPAN", value_parser = parse_span, conflicts_with_all = ["from", "to"])]
    last: Option<Duration>,
    #[command(flatten)]
    range: TimeRange,
    /// Print JSON
    #[arg(long, conflicts_with_all = ["csv", "svg"])]
    json: bool,
    /// Print CSV
    #[arg(long, conflicts_with = "svg")]
    csv: bool,
    /// What separates the cells of CSV; with semicolons numbers have a decimal comma
    #[arg(long, value_enum, default_value_t, requires = "csv")]
    separator: Separator,
    /// Print charts of the figures over time, as SVG
    #[arg(long)]
    svg: bool,
}

/// Member, heading in the table. `startupP50Millis` and the like are absent where there is nothing to compute from.
const FIGURES: [(&str, &str); 12] = [
    ("attempts", "ATTEMPTS"),
    ("plays", "PLAYS"),
    ("startupP50Millis", "START P50 MS"),
    ("startupP95Millis", "START P95 MS"),
    ("startFailures", "START FAIL"),
    ("exitsBeforeStart", "EXITS"),
    ("playbackFailures", "PLAY FAIL"),
    ("rebufferCount", "REBUFFERS"),
    ("rebufferRatio", "REBUFFERING"),
    ("minutesPlayed", "MINUTES"),
    ("meanBitrate", "BITRATE"),
    ("maxConcurrent", "CONCURRENT"),
];

pub(crate) async fn run(args: ReportArgs, global: &Global) -> CommandResult {
    let mut admin = global.admin().await?;
    let now = server_time(&mut admin).await?;
    let mut range = args.range;
    range.from = args.last.map(TimeArg::before_now).or(range.from);
    let [from, to] = range.seconds(now);
    let mut query = vec![("from", from.as_deref()), ("to", to.as_deref())];
    let times = |by: &&String| matches!(by.as_str(), "minute" | "hour");
    // A chart has the time as its axis.
    let by = args.by.iter().filter(|by| !args.svg || !times(by));
    query.extend(by.map(|by| ("by", Some(by.as_str()))));
    query.extend(
        args.filters
            .iter()
            .map(|filter| ("where", Some(filter.as_str()))),
    );
    let resource = if args.svg { "series" } else { "report" };
    let report = admin
        .get(&with_query(path(&["telemetry", resource]), &query))
        .await?;
    if args.svg {
        output::line(&chart::draw(&report))
    } else if args.json {
        output::json(&report)
    } else if args.csv {
        print_csv(&report, args.separator)
    } else {
        table(&report)
    }
}

fn dimensions(report: &Value) -> Vec<&str> {
    texts(report, "by").collect()
}

fn key_cell(row: &Value, by: &str, missing: &str, time: fn(i64) -> Option<String>) -> String {
    match row.get("key").and_then(|key| key.get(by)) {
        Some(Value::String(name)) => name.clone(),
        Some(at) if by == "minute" || by == "hour" => {
            at.as_i64().and_then(time).unwrap_or_default()
        }
        Some(other) => other.to_string(),
        None => missing.to_owned(),
    }
}

/// For programs, which read it in any zone.
fn rfc3339(seconds: i64) -> Option<String> {
    let at = chrono::DateTime::from_timestamp(seconds, 0)?;
    Some(at.format("%Y-%m-%dT%H:%M:%SZ").to_string())
}

fn table(report: &Value) -> CommandResult {
    let by = dimensions(report);
    let mut lines: Vec<Vec<String>> = Vec::new();
    let heads = by.iter().map(|by| by.to_uppercase());
    lines.push(
        heads
            .chain(FIGURES.map(|(_, head)| head.to_owned()))
            .chain(["TOP FAILURE".to_owned()])
            .collect(),
    );
    let mut rows: Vec<&Value> = elements(report, "rows").iter().collect();
    if !by.iter().any(|by| matches!(*by, "minute" | "hour")) {
        // Operators look for what fails most.
        rows.sort_by_key(|row| Reverse((number(row, "startFailures"), number(row, "attempts"))));
    }
    for row in rows {
        let key = by.iter().map(|by| key_cell(row, by, "-", output::instant));
        lines.push(
            key.chain(FIGURES.map(|(name, _)| shown(name, row)))
                .chain([top_failure(row)])
                .collect(),
        );
    }
    let none = Value::Null;
    let total = report.get("total").unwrap_or(&none);
    if by.is_empty() {
        lines.truncate(1);
    }
    let first = by
        .iter()
        .enumerate()
        .map(|(at, _)| if at == 0 { "TOTAL" } else { "" });
    let key = first.map(str::to_owned);
    lines.push(
        key.chain(FIGURES.map(|(name, _)| shown(name, total)))
            .chain([top_failure(total)])
            .collect(),
    );
    output::columns(&lines)
}

/// The most frequent failure code and the number of views with it.
fn top_failure(figures: &Value) -> String {
    let codes = figures.get("failureCodes").and_then(Value::as_object);
    let views = |(_, views): &(&String, &Value)| views.as_u64();
    let top = codes.and_then(|codes| codes.iter().max_by_key(views));
    // Players choose the codes, so control characters must not reach the terminal.
    let plain = |code: &str| output::cell("code", Some(&Value::from(code)));
    top.map_or_else(
        || "-".to_owned(),
        |(code, views)| format!("{} ({views})", plain(code)),
    )
}

fn shown(name: &str, figures: &Value) -> String {
    let figure = |name| figures.get(name).and_then(Value::as_f64);
    let Some(number) = figure(name) else {
        return "-".to_owned();
    };
    match name {
        "startFailures" if number > 0.0 => {
            let attempts = figure("attempts").unwrap_or_default().max(1.0);
            format!("{number:.0} ({:.1}%)", number / attempts * 100.0)
        }
        "rebufferRatio" => format!("{:.2}%", number * 100.0),
        "minutesPlayed" => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
}

/// With a heading. A figure without a value is an empty cell.
fn print_csv(report: &Value, separator: Separator) -> CommandResult {
    let by = dimensions(report);
    let figures = FIGURES.map(|(name, _)| name);
    let heads = by.iter().copied().chain(figures).map(Value::from);
    csv::row(heads, separator)?;
    for row in elements(report, "rows") {
        let key = by
            .iter()
            .map(|by| Value::from(key_cell(row, by, "", rfc3339)));
        let figure = |name| row.get(name).cloned().unwrap_or_default();
        csv::row(key.chain(figures.map(figure)), separator)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_failure_is_named() {
        let figures = serde_json::json!({"failureCodes": {"3016": 2, "DRM\u{1b}[2J": 74}});
        assert_eq!(top_failure(&figures), "DRM [2J (74)");
        assert_eq!(top_failure(&Value::Null), "-");
    }
}
