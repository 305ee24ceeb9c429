//! Names that the shell completes: partners, users, livestreams and so on, asked of the running server.
//!
//! A completion does not open the store, waits for at most a second, and prints nothing but names. Without a
//! server, or without access to its socket, there are none.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Arg, Command};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use tokio::time::timeout;

use crate::client::Admin;
use crate::client::known_names::{self, KnownNames};
use crate::commands::lab::{CERTIFICATION, scenario_names};
use crate::global::Global;
use crate::output::Failure;
use crate::process::wait;
use playgate_api::route_table::ROUTERS;
use playgate_config::load;
use playgate_http::ErrorCode;

const TIMEOUT: Duration = Duration::from_secs(1);

/// Returns the names that an argument takes, by the ids of its command and of the argument.
fn named_by(command: &str, argument: &str) -> Option<Completed> {
    Some(match argument {
        "partner" => Completed::Asked(known_names::PARTNERS),
        "operator" => Completed::Asked(known_names::OPERATORS),
        "source" => Completed::Asked(known_names::SOURCES),
        "user" => Completed::Asked(KnownNames::Users),
        "livestream" => Completed::Asked(KnownNames::Content(&["livestream"])),
        "asset" => Completed::Asked(KnownNames::Content(&["livestream", "asset"])),
        "offer" => Completed::Asked(KnownNames::Content(&["offer"])),
        "file" if ["verify", "restore"].contains(&command) => {
            Completed::Asked(known_names::BACKUPS)
        }
        "file" if command == "run" => Completed::Fixed(scenarios),
        "only" => Completed::Fixed(scenarios),
        "route" => Completed::Fixed(routes),
        "code" | "refuse" => Completed::Fixed(codes),
        _ => return None,
    })
}

#[derive(Clone, Copy)]
enum Completed {
    /// The running server knows them.
    Asked(KnownNames),
    Fixed(fn() -> Vec<&'static str>),
}

fn scenarios() -> Vec<&'static str> {
    scenario_names().chain([CERTIFICATION]).collect()
}

fn routes() -> Vec<&'static str> {
    let routes = ROUTERS.facts().public.into_iter();
    routes
        .map(|route| route.label)
        .chain(["license", "any"])
        .collect()
}

fn codes() -> Vec<&'static str> {
    ErrorCode::ALL.iter().map(|code| code.as_str()).collect()
}

/// Adds completers to all arguments of a command and its sub-commands that take a name. `line` is the line typed so
/// far.
pub(super) fn complete(command: Command, line: &[OsString]) -> Command {
    let line = line.iter();
    let words = line.map(|word| word.to_string_lossy().into_owned());
    complete_below(command, &words.collect())
}

fn complete_below(command: Command, line: &Arc<[String]>) -> Command {
    let name = command.get_name().to_owned();
    command
        .mut_args(|argument| complete_argument(&name, argument, line))
        .mut_subcommands(|command| complete_below(command, line))
}

fn complete_argument(command: &str, argument: Arg, line: &Arc<[String]>) -> Arg {
    let Some(named) = named_by(command, argument.get_id().as_str()) else {
        return argument;
    };
    let line = Arc::clone(line);
    argument.add(ArgValueCompleter::new(move |begun: &OsStr| {
        let begun = begun.to_string_lossy();
        let names = match named {
            Completed::Asked(named) => asked(named, &line, &begun),
            Completed::Fixed(names) => names().into_iter().map(str::to_owned).collect(),
        };
        let fitting = names.into_iter().filter(|name| name.starts_with(&*begun));
        fitting.map(CompletionCandidate::new).collect()
    }))
}

fn asked(named: KnownNames, line: &[String], begun: &str) -> Vec<String> {
    let asked = wait(async {
        let loaded =
            load(&global_options(line).inputs()?).map_err(|why| Failure::usage(why.to_string()))?;
        let asking = async {
            match Admin::running(&loaded).await? {
                Some(mut admin) => named.ask(&mut admin, begun).await,
                None => Ok(Vec::new()),
            }
        };
        // A server that hangs may not even accept the connection.
        let asked = timeout(TIMEOUT, asking).await;
        asked.unwrap_or_else(|_| Ok(Vec::new()))
    });
    // An error has no place in the line that the user is typing.
    asked.unwrap_or_default()
}

/// Finds the global options in the unfinished line, which does not parse yet.
fn global_options(words: &[String]) -> Global {
    let value = |option: &str| {
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let value = match word.strip_prefix(option) {
                Some("") => words.next().map(String::as_str),
                // A longer option, such as `--config-x`, has no `=` here.
                Some(rest) => rest.strip_prefix('='),
                None => None,
            };
            if value.is_some() {
                return value.map(PathBuf::from);
            }
        }
        None
    };
    Global {
        config: value("--config"),
        data_dir: value("--data-dir"),
    }
    .or_environment()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn global_options_are_found_in_an_unfinished_line() {
        for (line, config, data_dir) in [
            ("--config a --data-dir b user show", Some("a"), Some("b")),
            ("--data-dir=b --config=a user", Some("a"), Some("b")),
            ("--config-x c --data-dirs=d --config a", Some("a"), None),
            ("user show --config", None, None),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let Global {
                config: found_config,
                data_dir: found_dir,
            } = global_options(&words);
            assert_eq!(found_config, config.map(PathBuf::from), "{line}");
            assert_eq!(found_dir, data_dir.map(PathBuf::from), "{line}");
        }
    }
}
