//! `playgate epg`: guides of programmes.

use std::path::Path;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::admin::upload::{self, Sent};
use super::admin::{path, remote, with_query};
use super::exit::{Failure, Outcome};
use super::{Global, output, rights};

/// The electronic programme guide.
#[derive(Subcommand)]
pub enum Command {
    /// Import a guide: XMLTV (plain, gzip, xz) or JSON; exit code 4 if it is held for approval
    Import(Import),
    /// Tell which rights a broadcast has, and which default, rule or override gave it each
    Why {
        /// The broadcast's id
        broadcast: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// A guide that is to be imported.
#[derive(Args)]
pub struct Import {
    /// File, `-` for standard input, or http address
    #[arg(value_name = "FILE_OR_URL")]
    guide: String,
    /// The source that the guide is of: its settings apply if it is configured
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// Report what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Take the guide even if it looks implausible
    #[arg(long)]
    accept: bool,
    /// Make livestreams for channels that the catalogue does not know
    #[arg(long)]
    create_livestreams: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub async fn run(command: Command, global: &Global) -> Outcome {
    match command {
        Command::Import(import) => run_import(import, global).await,
        Command::Why { broadcast, json } => rights::why(global, &broadcast, json).await,
    }
}

async fn run_import(import: Import, global: &Global) -> Outcome {
    let sent = Sent::default();
    let body = if remote::is_address(&import.guide) {
        upload::counted(remote::get(&import.guide).await?, &sent)
    } else {
        upload::counted(upload::file(Path::new(&import.guide))?, &sent)
    };
    let flag = |set: bool| set.then_some("true");
    let target = with_query(
        path(&["epg", "import"]),
        &[
            ("source", import.source.as_deref()),
            ("dryRun", flag(import.dry_run)),
            ("accept", flag(import.accept)),
            ("createLivestreams", flag(import.create_livestreams)),
        ],
    );
    let mut admin = global.admin().await?;
    let answer = admin
        .upload(&target, "application/octet-stream", body, &sent)
        .await?;
    match answer {
        Ok(report) => show(&report, !import.dry_run, import.json),
        Err(refusal) => {
            // A guide that is held comes with the same report.
            if refusal.code == "IMPORT_HELD" {
                show(&refusal.details, false, import.json)?;
                return Err(
                    Failure::from(refusal).hint("look at the guide; `--accept` takes it as it is")
                );
            }
            Err(refusal.into())
        }
    }
}

/// The figures in the order in which a person asks for them, then what was left out. Of a report
/// that was not acted on nothing has been made.
fn show(report: &Value, done: bool, json: bool) -> Outcome {
    if json {
        return output::json(report);
    }
    for member in [
        "channels",
        "programmes",
        "added",
        "changed",
        "removed",
        "unchanged",
    ] {
        if let Some(number) = report.get(member) {
            output::line(&format!("{member:<11} {number}"))?;
        }
    }
    let skipped = report.get("skipped").and_then(Value::as_object);
    for (kind, number) in skipped.into_iter().flatten() {
        let lines = report.pointer(&format!("/skippedLines/{kind}"));
        let lines = lines.map_or_else(String::new, |lines| format!(", lines {lines}"));
        output::note(&format!("skipped     {number} {kind}{lines}"));
    }
    let made = if done {
        "made in the catalogue"
    } else {
        "to be made in the catalogue"
    };
    for (member, meaning) in [
        ("unmapped", "not in the catalogue"),
        ("created", made),
        ("newChannels", "seen for the first time"),
        ("doubts", "in doubt"),
    ] {
        let ids = report.get(member).and_then(Value::as_array);
        if let Some(ids) = ids.filter(|ids| !ids.is_empty()) {
            let ids: Vec<&str> = ids.iter().filter_map(Value::as_str).collect();
            output::note(&format!("{meaning}: {}", ids.join(", ")));
        }
    }
    Ok(())
}
