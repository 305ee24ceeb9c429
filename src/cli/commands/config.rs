//! `playgate config`: lists the keys, shows effective values and their sources, reports problems.

use clap::Subcommand;
use serde_json::{Value, json};

use crate::global::{Global, config_failure, load_and_check};
use crate::output::{self, CommandResult};
use playgate_config::{ConfigProblem, ConfigProblems, Effective, KeyInfo, Loaded, keys};
use playgate_ports::{Clock as _, SystemClock};

/// Configuration: one file, overridden by the environment, overridden by flags
#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check the configuration and list all errors; exit code 2 if there is one
    Check {
        /// Print {"problems":[{"origin","message"}],"warnings":[]}
        #[arg(long)]
        json: bool,
    },
    /// Show the effective value and source of each key, secrets masked
    Show {
        /// Print a JSON array of {"key","value","origin"}
        #[arg(long)]
        json: bool,
    },
    /// List all keys with defaults and descriptions
    ///
    /// Set a key in the file, or through the environment variable shown. For a secret, set its value, put
    /// the path of a file in KEY_file, or use a systemd credential with the key's name.
    Keys {
        /// Print a JSON array of {"key","default","variable","secret","meaning"}
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(command: ConfigCommand, global: &Global) -> CommandResult {
    match command {
        ConfigCommand::Check { json } => check(global, json),
        ConfigCommand::Show { json } => show(global, json),
        ConfigCommand::Keys { json } => list_keys(json),
    }
}

fn check(global: &Global, as_json: bool) -> CommandResult {
    let (warnings, problems) = match load_and_check(&global.inputs()?) {
        Ok(loaded) => (warnings(loaded), ConfigProblems::default()),
        Err(problems) => (Vec::new(), problems),
    };
    if as_json {
        let listed: Vec<Value> = problems.0.iter().map(problem_json).collect();
        output::json(&json!({ "problems": listed, "warnings": warnings }))?;
    } else {
        warn(&warnings);
    }
    if problems.0.is_empty() {
        output::print_note("the configuration is valid");
        Ok(())
    } else {
        Err(config_failure(&problems))
    }
}

fn warnings(loaded: Loaded) -> Vec<String> {
    let mut warnings = loaded.warnings;
    // An expired certificate is a warning and not an error: the server starts with it, since the clock may be wrong.
    let tls = playgate_app::tls(&loaded.config).ok().flatten();
    warnings.extend(tls.and_then(|tls| tls.warning(SystemClock.now())));
    let etcd = playgate_app::etcd_tls(&loaded.config.fleet).ok().flatten();
    warnings.extend(etcd.and_then(|tls| tls.warning(SystemClock.now())));
    warnings
}

fn warn(warnings: &[String]) {
    for warning in warnings {
        output::print_note(&format!("warning: {warning}"));
    }
}

fn problem_json(problem: &ConfigProblem) -> Value {
    json!({
        "origin": problem.origin.as_ref().map(ToString::to_string),
        "message": problem.message,
    })
}

fn show(global: &Global, json: bool) -> CommandResult {
    let loaded = global.load()?;
    warn(&loaded.warnings);
    let rows: Value = loaded.effective.iter().map(effective_json).collect();
    output::list(
        &rows,
        &[("KEY", "key"), ("VALUE", "value"), ("FROM", "origin")],
        json,
    )
}

fn effective_json(effective: &Effective) -> Value {
    json!({
        "key": effective.key,
        "value": effective.value,
        "origin": effective.origin.to_string(),
    })
}

fn list_keys(json: bool) -> CommandResult {
    let rows: Value = keys().map(|key| key_json(&key)).collect();
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

fn key_json(key: &KeyInfo) -> Value {
    json!({
        "key": key.key,
        "default": key.default,
        "variable": key.variable,
        "secret": key.secret,
        "meaning": key.doc,
    })
}
