//! `playgate lab check`: the conformance report of a client, as text, JSON, HTML and JUnit.

mod html;
mod junit;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Deserialize;
use serde_json::Value;

use crate::cli::admin::{path, with_query};
use crate::cli::exit::{CommandResult, Failure};
use crate::cli::time_arg::TimeArg;
use crate::cli::{Global, output};

#[derive(Args)]
pub(in crate::cli) struct CheckCommand {
    /// Partner: id or name
    #[arg(long)]
    partner: String,
    /// Judge this playback session only
    #[arg(long, conflicts_with_all = ["from", "to"], allow_hyphen_values = true)]
    session: Option<String>,
    /// Start of the period: Unix seconds, RFC 3339, or a span such as -15m; an hour back by default
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<TimeArg>,
    /// End of the period (exclusive); now by default
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<TimeArg>,
    /// TOML file with a table `waived`: rules that do not apply, each with its reason
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Write the report as an HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the report as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfileFile {
    waived: BTreeMap<String, String>,
}

/// Where a report goes, besides standard output.
pub(super) struct ReportFiles<'a> {
    pub(super) html: Option<&'a Path>,
    pub(super) junit: Option<&'a Path>,
}

/// The waived rules of a profile, as the server takes them.
pub(super) fn waived(file: &Path) -> Result<String, Failure> {
    let text = fs::read_to_string(file).map_err(|error| Failure::file(file, &error))?;
    let wrong =
        |what: &dyn std::fmt::Display| Failure::usage(format!("{}: {what}", file.display()));
    let profile: ProfileFile = toml::from_str(&text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start));
        let line = 1 + before.map_or(0, |before| before.matches('\n').count());
        wrong(&format_args!("line {line}: {}", error.message()))
    })?;
    serde_json::to_string(&profile.waived).map_err(|error| wrong(&error))
}

pub(super) async fn run(command: CheckCommand, global: &Global) -> CommandResult {
    let mut admin = global.admin().await?;
    let waived = command.profile.as_deref().map(waived).transpose()?;
    // Spans count back from the server's time, which a lab may have moved.
    let clock = admin.get(&path(&["clock"])).await?;
    let now = clock.get("now").and_then(Value::as_i64).unwrap_or(0);
    let instant = |time: Option<TimeArg>| time.map(|time| time.at(now).to_string());
    let (from, to) = (instant(command.from), instant(command.to));
    let target = with_query(
        path(&["partners", &command.partner, "conformance"]),
        &[
            ("session", command.session.as_deref()),
            ("from", from.as_deref()),
            ("to", to.as_deref()),
            ("waived", waived.as_deref()),
        ],
    );
    let report = admin.get(&target).await?;
    let files = ReportFiles {
        html: command.html.as_deref(),
        junit: command.junit.as_deref(),
    };
    write(&report, &files, command.json)?;
    match text(&report, "verdict") {
        "failed" => Err(Failure::failed(BROKEN)),
        _ => Ok(()),
    }
}

pub(super) const BROKEN: &str = "the client breaks rules that it must keep";

pub(super) fn write(report: &Value, files: &ReportFiles<'_>, as_json: bool) -> CommandResult {
    for (file, render) in [
        (files.html, html::page as fn(&Value) -> String),
        (files.junit, junit::suite as fn(&Value) -> String),
    ] {
        if let Some(file) = file {
            fs::write(file, render(report)).map_err(|error| Failure::file(file, &error))?;
        }
    }
    match as_json {
        true => output::json(report),
        false => print(report),
    }
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value
        .get(member)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn number(value: &Value, member: &str) -> u64 {
    value.get(member).and_then(Value::as_u64).unwrap_or(0)
}

fn rules(report: &Value) -> impl Iterator<Item = &Value> {
    report
        .get("rules")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn evidence(rule: &Value) -> Vec<&str> {
    let ids = rule
        .get("evidence")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    ids.filter_map(Value::as_str).collect()
}

/// How a result is called in texts.
fn name_of(result: &str) -> &str {
    match result {
        "notSeen" => "not seen",
        other => other,
    }
}

fn summary(report: &Value) -> String {
    format!(
        "{}: {} passed, {} failed, {} not seen, {} waived; {} requests, {} sessions, {} events",
        text(report, "verdict"),
        number(report, "passed"),
        number(report, "failed"),
        number(report, "notSeen"),
        number(report, "waived"),
        number(report, "requests"),
        number(report, "sessions"),
        number(report, "events"),
    )
}

/// Failed rules first: they are what a reader came for.
fn print(report: &Value) -> CommandResult {
    for wanted in ["failed", "notSeen", "waived", "passed"] {
        for rule in rules(report).filter(|rule| text(rule, "result") == wanted) {
            let (id, title) = (text(rule, "id"), text(rule, "title"));
            output::line(&format!(
                "{:9} {:6} {id:28} {title}",
                name_of(wanted),
                text(rule, "level")
            ))?;
            if wanted == "failed" {
                output::line(&format!(
                    "          {}; {}",
                    text(rule, "finding"),
                    text(rule, "interface")
                ))?;
                output::line(&format!("          requests {}", evidence(rule).join(" ")))?;
            } else if wanted == "waived" {
                output::line(&format!("          {}", text(rule, "reason")))?;
            }
        }
    }
    output::line(&summary(report))
}
