//! `playgate store`: integrity of records and indexes.

use clap::Subcommand;
use http::Method;
use serde_json::Value;

use super::admin::path;
use super::exit::{Failure, Outcome};
use super::{Global, output};

/// The store: integrity of records and indexes.
#[derive(Subcommand)]
pub enum Command {
    /// Check every record, indexes both ways, and engine against log; exit code 1 if anything is wrong
    Verify {
        /// Print the report as JSON
        #[arg(long)]
        json: bool,
    },
    /// Make the indexes anew from the records, and report what was wrong
    Rebuild {
        /// Print the report as JSON
        #[arg(long)]
        json: bool,
    },
}

const COLUMNS: [output::Column; 5] = [
    ("TABLE", "table"),
    ("RECORDS", "records"),
    ("DAMAGED", "damaged"),
    ("MISSING", "missing"),
    ("STALE", "stale"),
];

/// Runs the command.
pub async fn run(command: Command, global: &Global) -> Outcome {
    let mut admin = global.admin().await?;
    match command {
        Command::Verify { json } => {
            let report = admin
                .call(Method::POST, &path(&["store", "verify"]), None)
                .await?;
            show(&report, json)?;
            if report.get("sound") == Some(&Value::Bool(true)) {
                output::note("every record and index is sound, and the engine as base and log say");
                return Ok(());
            }
            Err(Failure::failed("the store is not sound").hint(
                "`playgate store rebuild` mends indexes; an engine that is not as base and log say is \
                 made anew by the next start; damaged records come back from a backup",
            ))
        }
        Command::Rebuild { json } => {
            let report = admin
                .call(Method::POST, &path(&["store", "rebuild"]), None)
                .await?;
            show(&report, json)
        }
    }
}

fn show(report: &Value, json: bool) -> Outcome {
    if json {
        return output::json(report);
    }
    let nothing = Value::Null;
    output::list(report.get("tables").unwrap_or(&nothing), &COLUMNS, false)?;
    match report.get("truth") {
        Some(truth) => {
            output::line("\nThe engine against base and log:")?;
            output::record(truth, false)
        }
        None => Ok(()),
    }
}
