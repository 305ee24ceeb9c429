//! `playgate config`: what can be configured, what is, where it comes from, and what is wrong with it.

use clap::Subcommand;
use serde_json::{Value, json};

use super::exit::Outcome;
use super::{Global, examined, mistaken, output};
use crate::app;
use crate::config::{Effective, KeyInfo, Loaded, Problem, Problems, keys};
use crate::ports::{Clock as _, SystemClock};

/// The configuration: one file, overridden by the environment, overridden by flags.
#[derive(Subcommand)]
pub enum Command {
    /// Report every mistake at once; exit code 2 if there is one
    Check {
        /// Print {"problems":[{"origin","message"}],"warnings":[]}
        #[arg(long)]
        json: bool,
    },
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
        Command::Check { json } => check(global, json),
        Command::Show { json } => show(global, json),
        Command::Keys { json } => list_keys(json),
    }
}

fn check(global: &Global, as_json: bool) -> Outcome {
    let (warnings, problems) = match examined(&global.inputs()?) {
        Ok(loaded) => (warnings(loaded), Problems::default()),
        Err(problems) => (Vec::new(), problems),
    };
    if as_json {
        let listed: Vec<Value> = problems.0.iter().map(mistake).collect();
        output::json(&json!({ "problems": listed, "warnings": warnings }))?;
    } else {
        warn(&warnings);
    }
    if problems.0.is_empty() {
        output::print_note("the configuration is in order");
        Ok(())
    } else {
        Err(mistaken(&problems))
    }
}

/// What an operator should know about a sound configuration, with what it names.
fn warnings(loaded: Loaded) -> Vec<String> {
    let mut warnings = loaded.warnings;
    // Decision: a certificate whose time is over is no mistake. A server starts with it, and the clock may
    // be what is wrong.
    let tls = app::tls(&loaded.config).ok().flatten();
    warnings.extend(tls.and_then(|tls| tls.trouble(SystemClock.now())));
    warnings
}

fn warn(warnings: &[String]) {
    for warning in warnings {
        output::print_note(&format!("warning: {warning}"));
    }
}

fn mistake(problem: &Problem) -> Value {
    json!({
        "origin": problem.origin.as_ref().map(ToString::to_string),
        "message": problem.message,
    })
}

fn show(global: &Global, json: bool) -> Outcome {
    let loaded = global.load()?;
    warn(&loaded.warnings);
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
