//! `playgate lab check`: the conformance report of a client, as text, JSON, HTML and JUnit.

mod html;
mod junit;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use chrono::DateTime;
use clap::Args;
use serde::Deserialize;
use serde_json::Value;

use super::step_result;
use crate::client::time_arg::{TimeArg, server_time};
use crate::client::{path, with_query};
use crate::global::Global;
use crate::output::members::{elements, number, text, texts};
use crate::output::{self, CommandResult, Failure};
use playgate_ports::named_file;

#[derive(Args)]
pub(crate) struct CheckCommand {
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

/// Files to which a report is written, in addition to standard output.
pub(super) struct ReportFiles<'a> {
    pub(super) html: Option<&'a Path>,
    pub(super) junit: Option<&'a Path>,
}

/// Reads the waived rules of a profile, in the format of the server.
pub(super) fn waived(file: &Path) -> Result<String, Failure> {
    let text = named_file::read_to_string(file).map_err(|error| Failure::file(file, &error))?;
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
    // A span such as -15m counts from the server's clock, which an operator of a lab may have moved.
    let now = server_time(&mut admin).await?;
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
    // Written before the verdict decides the exit code: a failed run has its report too.
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
        (files.junit, junit::document as fn(&Value) -> String),
    ] {
        if let Some(file) = file {
            named_file::write(file, render(report).as_bytes())
                .map_err(|error| Failure::file(file, &error))?;
        }
    }
    match as_json {
        true => output::json(report),
        false => print(report),
    }
}

fn evidence(rule: &Value) -> String {
    texts(rule, "evidence").collect::<Vec<_>>().join(" ")
}

pub(super) fn has_passed(scenario: &Value) -> bool {
    scenario.get("passed") == Some(&Value::Bool(true))
}

fn result_of(scenario: &Value) -> &'static str {
    match has_passed(scenario) {
        true => "passed",
        false => "failed",
    }
}

pub(super) fn failure(scenario: &Value) -> Option<&str> {
    let mut steps = elements(scenario, "steps").iter();
    steps.find_map(step_result::failure)
}

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

/// The period that was judged, by the server's clock and in UTC whatever the zone of this machine.
fn period(report: &Value) -> String {
    let time = |member| {
        let seconds = report.get(member).and_then(Value::as_i64).unwrap_or(0);
        let time = DateTime::from_timestamp(seconds, 0).unwrap_or_default();
        time.format("%Y-%m-%d %H:%M:%S UTC").to_string()
    };
    let session = match text(report, "session") {
        "" => String::new(),
        session => format!("session {session}, "),
    };
    format!("{session}{} to {}", time("from"), time("to"))
}

fn print(report: &Value) -> CommandResult {
    for scenario in elements(report, "scenarios") {
        let (result, id) = (result_of(scenario), text(scenario, "id"));
        let why = failure(scenario).map_or_else(String::new, |why| format!(": {why}"));
        output::line(&format!("{result:9} scenario {id}{why}"))?;
    }
    for id in texts(report, "notRun") {
        output::line(&format!("not run   scenario {id}"))?;
    }
    // Failed rules come first, since readers look for them.
    for wanted in ["failed", "notSeen", "waived", "passed"] {
        let rules = elements(report, "rules").iter();
        for rule in rules.filter(|rule| text(rule, "result") == wanted) {
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
                output::line(&format!("          requests {}", evidence(rule)))?;
            } else if wanted == "waived" {
                output::line(&format!("          {}", text(rule, "reason")))?;
            }
        }
    }
    output::line(&format!("checked   {}", period(report)))?;
    output::line(&summary(report))
}
