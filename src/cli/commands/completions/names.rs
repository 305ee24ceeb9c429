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
use serde_json::Value;
use tokio::time::timeout;

use crate::client::{Admin, path, with_query};
use crate::global::Global;
use crate::output::Failure;
use crate::output::members::{all, elements};
use crate::process::wait;
use playgate_config::load;

const TIMEOUT: Duration = Duration::from_secs(1);

/// The kind of name that an argument takes, derived from the id of the argument.
#[derive(Clone, Copy)]
enum Named {
    /// Entries of a list, by a member of each.
    Listed(&'static [&'static str], &'static str),
    Users,
    /// Entries of the catalogue, by their kinds.
    Content(&'static [&'static str]),
}

impl Named {
    fn by(argument: &str) -> Option<Self> {
        Some(match argument {
            "partner" => Self::Listed(&["partners"], "name"),
            "operator" => Self::Listed(&["operators"], "name"),
            "source" => Self::Listed(&["epg", "sources"], "name"),
            "user" => Self::Users,
            "livestream" => Self::Content(&["livestream"]),
            "asset" => Self::Content(&["livestream", "asset"]),
            "offer" => Self::Content(&["offer"]),
            _ => return None,
        })
    }

    async fn ask(self, admin: &mut Admin, begun: &str) -> Result<Vec<String>, Failure> {
        match self {
            Self::Listed(segments, member) => {
                Ok(texts_of(all(&admin.get(&path(segments)).await?), member))
            }
            // There may be millions, so the server searches.
            Self::Users => {
                let search = Some(begun).filter(|begun| !begun.is_empty());
                let target = with_query(path(&["users"]), &[("search", search)]);
                Ok(texts_of(all(&admin.get(&target).await?), "email"))
            }
            Self::Content(kinds) => {
                let catalog = admin.catalog().await?;
                let kinds = kinds.iter();
                Ok(kinds
                    .flat_map(|kind| texts_of(elements(&catalog, kind), "id"))
                    .collect())
            }
        }
    }
}

fn texts_of(entries: &[Value], member: &str) -> Vec<String> {
    let entries = entries.iter();
    let texts = entries.filter_map(|entry| entry.get(member)?.as_str());
    texts.map(str::to_owned).collect()
}

/// Adds completers to all arguments of a command and its sub-commands that take a name. `line` is the line typed so
/// far.
pub(super) fn complete(command: Command, line: &[OsString]) -> Command {
    let line = line.iter();
    let words = line.map(|word| word.to_string_lossy().into_owned());
    complete_below(command, &words.collect())
}

fn complete_below(command: Command, line: &Arc<[String]>) -> Command {
    command
        .mut_args(|argument| complete_argument(argument, line))
        .mut_subcommands(|command| complete_below(command, line))
}

fn complete_argument(argument: Arg, line: &Arc<[String]>) -> Arg {
    let Some(named) = Named::by(argument.get_id().as_str()) else {
        return argument;
    };
    let line = Arc::clone(line);
    argument.add(ArgValueCompleter::new(move |begun: &OsStr| {
        candidates(named, &line, &begun.to_string_lossy())
    }))
}

fn candidates(named: Named, line: &[String], begun: &str) -> Vec<CompletionCandidate> {
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
    let names = asked.unwrap_or_default().into_iter();
    let fitting = names.filter(|name| name.starts_with(begun));
    fitting.map(CompletionCandidate::new).collect()
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
