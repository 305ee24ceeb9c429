//! `playgate config`: what is configured, where it comes from, and what is wrong with it.

use clap::Subcommand;
use serde_json::{Value, json};

use super::exit::Outcome;
use super::{Global, checked, output};
use crate::config::Effective;

/// The configuration: one file, overridden by the environment, overridden by flags.
#[derive(Subcommand)]
pub enum Command {
    /// Report every mistake at once; exit code 2 if there is one
    Check,
    /// Show each effective value and where it comes from, secrets masked
    Show {
        /// Print a JSON array of {"key","value","origin"}
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command.
pub fn run(command: Command, global: &Global) -> Outcome {
    let loaded = global.load()?;
    for warning in &loaded.warnings {
        output::note(&format!("warning: {warning}"));
    }
    match command {
        Command::Check => {
            checked(&loaded)?;
            output::note("the configuration is in order");
            Ok(())
        }
        Command::Show { json } => {
            let rows: Value = loaded.effective.iter().map(row).collect();
            output::list(
                &rows,
                &[("KEY", "key"), ("VALUE", "value"), ("FROM", "origin")],
                json,
            )
        }
    }
}

fn row(effective: &Effective) -> Value {
    json!({
        "key": effective.key,
        "value": effective.value,
        "origin": effective.origin.to_string(),
    })
}
