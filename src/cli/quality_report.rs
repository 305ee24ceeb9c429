//! `playgate telemetry report`: quality figures as a table, JSON, CSV or a chart.

use std::cmp::Reverse;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::admin::{path, with_query};
use super::exit::CommandResult;
use super::members::{elements, number, texts};
use super::time_arg::{TimeArg, TimeRange, server_time};
use super::{Global, output, quality_chart};
use crate::types::parse_span;

#[derive(Args)]
pub(super) struct ReportArgs {
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

pub(super) async fn run(args: ReportArgs, global: &Global) -> CommandResult {
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
        output::line(&quality_chart::draw(&report))
    } else if args.json {
        output::json(&report)
    } else if args.csv {
        csv(&report)
    } else {
        table(&report)
    }
}

fn dimensions(report: &Value) -> Vec<&str> {
    texts(report, "by").collect()
}

fn key_cell(row: &Value, by: &str, missing: &str) -> String {
    match row.get("key").and_then(|key| key.get(by)) {
        Some(Value::String(name)) => name.clone(),
        Some(at) if by == "minute" || by == "hour" => {
            let at = chrono::DateTime::from_timestamp(at.as_i64().unwrap_or_default(), 0);
            at.map(|at| at.format("%Y-%m-%dT%H:%M:%SZ").to_string())
                .unwrap_or_default()
        }
        Some(other) => other.to_string(),
        None => missing.to_owned(),
    }
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
        let key = by.iter().map(|by| key_cell(row, by, "-"));
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

/// RFC 4180, with a heading.
fn csv(report: &Value) -> CommandResult {
    let by = dimensions(report);
    let heads: Vec<&str> = by
        .iter()
        .copied()
        .chain(FIGURES.map(|(name, _)| name))
        .collect();
    output::line(&heads.join(","))?;
    for row in elements(report, "rows") {
        let key = by.iter().map(|by| csv_cell(&key_cell(row, by, "")));
        let figure =
            |(name, _): (&str, &str)| row.get(name).map(Value::to_string).unwrap_or_default();
        let cells: Vec<String> = key.chain(FIGURES.map(figure)).collect();
        output::line(&cells.join(","))?;
    }
    Ok(())
}

/// The rules of the console's `csvCell` in data/console/list.js.
fn csv_cell(text: &str) -> String {
    // A spreadsheet runs a cell that begins with one of these as a formula, and players choose the names. Which character
    // begins a cell depends on its language. The full-width signs count as the plain ones.
    const SIGNS: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];
    let mut safe = String::with_capacity(text.len());
    let mut begins = true;
    for c in text.chars() {
        if begins && SIGNS.contains(&c) {
            safe.push('\'');
        }
        begins = matches!(c, ';' | ',' | '\t' | '\r' | '\n' | '|')
            || (begins && matches!(c, ' ' | '\u{a0}'));
        safe.push(c);
    }
    let text = safe;
    match text.contains([',', ';', '\t', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
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

    #[test]
    fn cells_of_csv_are_quoted_and_never_formulas() {
        for (text, cell) in [
            ("news", "news"),
            ("a,b", "\"a,b\""),
            ("say \"x\"", "\"say \"\"x\"\"\""),
            ("=cmd|x", "'=cmd|x"),
            ("Ann;=1+1;", "\"Ann;'=1+1;\""),
            ("a\t -1", "\"a\t '-1\""),
            ("＝1+1", "'＝1+1"),
            ("a-b = c", "a-b = c"),
        ] {
            assert_eq!(csv_cell(text), cell);
        }
    }
}
