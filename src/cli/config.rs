//! `playgate config`: what can be configured, what is, where it comes from, and what is wrong with it.

use clap::Subcommand;
use serde_json::{Value, json};

use super::exit::{Failure, Outcome};
use super::{Global, checked, output};
use crate::config::{Effective, KeyInfo, Loaded, keys};

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
    /// List every key there is, with its default and what it is for
    ///
    /// A key may stand in the file, or in the environment as the variable that is named. One that is
    /// secret takes its value, the path of a file as KEY_file, or a systemd credential of its name.
    Keys {
        /// Print a JSON array of {"key","default","variable","secret","meaning"}
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command.
pub fn run(command: Command, global: &Global) -> Outcome {
    match command {
        Command::Check => check(&load(global)?),
        Command::Show { json } => show(&load(global)?, json),
        Command::Keys { json } => list_keys(json),
    }
}

fn load(global: &Global) -> Result<Loaded, Failure> {
    let loaded = global.load()?;
    for warning in &loaded.warnings {
        output::note(&format!("warning: {warning}"));
    }
    Ok(loaded)
}

fn check(loaded: &Loaded) -> Outcome {
    checked(loaded)?;
    output::note("the configuration is in order");
    Ok(())
}

fn show(loaded: &Loaded, json: bool) -> Outcome {
    let rows: Value = loaded.effective.iter().map(in_force).collect();
    output::list(
        &rows,
        &[("KEY", "key"), ("VALUE", "value"), ("FROM", "origin")],
        json,
    )
}

fn in_force(effective: &Effective) -> Value {
    json!({
        "key": effective.key,
        "value": effective.value,
        "origin": effective.origin.to_string(),
    })
}

fn list_keys(json: bool) -> Outcome {
    let rows: Value = keys().map(|key| declared(&key)).collect();
    output::list(
        &rows,
        &[
            ("KEY", "key"),
            ("DEFAULT", "default"),
            ("MEANING", "meaning"),
        ],
        json,
    )
}

fn declared(key: &KeyInfo) -> Value {
    json!({
        "key": key.key,
        "default": key.default,
        "variable": key.variable,
        "secret": key.secret,
        "meaning": key.doc,
    })
}
