//! `playgate telemetry report`: quality figures as a table, JSON, CSV or a chart.

use std::cmp::Reverse;

use clap::Args;
use serde_json::Value;

use super::admin::{path, with_query};
use super::exit::{CommandResult, Failure};
use super::{Global, output, quality_chart};

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
    #[arg(long, value_name = "SPAN", conflicts_with_all = ["from", "to"])]
    last: Option<String>,
    /// Start: Unix seconds, RFC 3339, or a span before now such as -15m
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<String>,
    /// End (exclusive), in the same form
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<String>,
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
    // The server's clock, which an operator may have moved.
    let clock = admin.get(&path(&["clock"])).await?;
    let now = clock.get("now").and_then(Value::as_i64).unwrap_or_default();
    let from = match (&args.last, &args.from) {
        (Some(last), _) => Some(now - span(last).ok_or_else(|| unreadable("--last", last))?),
        (None, Some(from)) => Some(time(from, now).ok_or_else(|| unreadable("--from", from))?),
        (None, None) => None,
    };
    let to = match &args.to {
        Some(to) => Some(time(to, now).ok_or_else(|| unreadable("--to", to))?),
        None => None,
    };
    let (from, to) = (from.map(|at| at.to_string()), to.map(|at| at.to_string()));
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

fn unreadable(flag: &str, text: &str) -> Failure {
    Failure::usage(format!(
        "{flag} `{text}`: must be a span such as 15m, 6h or 7d{}",
        if flag == "--last" {
            ""
        } else {
            " with a minus sign, Unix seconds or RFC 3339"
        }
    ))
}

/// Seconds of a span such as `90s`, `15m`, `6h` or `7d`.
fn span(text: &str) -> Option<i64> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return None,
    };
    number
        .parse::<u32>()
        .ok()
        .map(|number| i64::from(number) * unit)
}

fn time(text: &str, now: i64) -> Option<i64> {
    if let Some(before) = text.strip_prefix('-') {
        return Some(now - span(before)?);
    }
    let seconds = text.parse::<u32>().ok().map(i64::from);
    seconds.or_else(|| Some(chrono::DateTime::parse_from_rfc3339(text).ok()?.timestamp()))
}

fn dimensions(report: &Value) -> Vec<&str> {
    let by = report.get("by").and_then(Value::as_array);
    by.into_iter().flatten().filter_map(Value::as_str).collect()
}

fn rows(report: &Value) -> impl Iterator<Item = &Value> {
    report
        .get("rows")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
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
            .collect(),
    );
    let mut rows: Vec<&Value> = rows(report).collect();
    if !by.iter().any(|by| matches!(*by, "minute" | "hour")) {
        // What fails most is what operators look for.
        let figure = |row: &Value, name| row.get(name).and_then(Value::as_u64).unwrap_or_default();
        rows.sort_by_key(|row| Reverse((figure(row, "startFailures"), figure(row, "attempts"))));
    }
    for row in rows {
        let key = by.iter().map(|by| key_cell(row, by, "-"));
        lines.push(
            key.chain(FIGURES.map(|(name, _)| shown(name, row)))
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
            .collect(),
    );
    output::columns(&lines)
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
    for row in rows(report) {
        let key = by.iter().map(|by| csv_cell(&key_cell(row, by, "")));
        let figure =
            |(name, _): (&str, &str)| row.get(name).map(Value::to_string).unwrap_or_default();
        let cells: Vec<String> = key.chain(FIGURES.map(figure)).collect();
        output::line(&cells.join(","))?;
    }
    Ok(())
}

fn csv_cell(text: &str) -> String {
    // A spreadsheet runs a cell that begins with one of these as a formula, and players choose the names.
    let text = match text.starts_with(['=', '+', '-', '@']) {
        true => format!("'{text}"),
        false => text.to_owned(),
    };
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_unix_seconds_rfc_3339_or_spans() {
        let now = 1_800_000_000;
        assert_eq!(time("1700000000", now), Some(1_700_000_000));
        assert_eq!(time("2026-01-01T01:00:00+01:00", now), Some(1_767_225_600));
        assert_eq!(time("-15m", now), Some(now - 900));
        assert_eq!(span("7d"), Some(604_800));
        for bad in ["", "m", "6", "6w", "-6h", "1.5h", "ä"] {
            assert_eq!(span(bad), None, "{bad}");
        }
        for bad in ["", "-", "-6", "yesterday", "2026-01-01"] {
            assert_eq!(time(bad, now), None, "{bad}");
        }
    }

    #[test]
    fn cells_of_csv_are_quoted_and_never_formulas() {
        for (text, cell) in [
            ("news", "news"),
            ("a,b", "\"a,b\""),
            ("say \"x\"", "\"say \"\"x\"\"\""),
            ("=cmd|x", "'=cmd|x"),
        ] {
            assert_eq!(csv_cell(text), cell);
        }
    }
}
