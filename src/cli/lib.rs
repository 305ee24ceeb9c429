//! The command line: noun then verb. Commands parse arguments and print results. The work itself is done through the operators'
//! interface, in a running server or in this process.
//!
//! | room | owns |
//! | --- | --- |
//! | `help` | groups, examples and synopses of `--help` |
//! | `arguments` | the nouns of the command line |
//! | `commands` | one file or folder for each noun |
//! | `demo`, `doctor` | the commands of these names |
//! | `server` | the process that serves: sockets, start, reload, stop, membership in a fleet |
//! | `as_owner` | continues a command of root as the owner of the data directory |
//! | `client` | the client of the operators' interface and its errors, and what it sends: files, secrets, times |
//! | `global` | the options of every command, and the configuration that they name |
//! | `process` | this process and the programs that it starts: signals, descriptors, caller, time limits |
//! | `output` | tables, JSON, notes, questions, colours; the failure of a command and its exit code |
//!
//! A room uses only rooms below it in this table; `tests/it/import_circles.rs` checks that.

// A test build has no callers from outside, so that every `pub` in it is unreachable.
#![cfg_attr(not(test), deny(unreachable_pub))]

mod arguments;
mod as_owner;
mod client;
mod commands;
mod demo;
mod doctor;
mod global;
mod help;
mod output;
mod process;
mod server;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{ArgMatches, FromArgMatches as _};

use arguments::{Arguments, Command};
use commands::{
    audit, backup, catalog, clock, completions, config, epg, fleet, healthcheck, lab, mail, man,
    operator, partner, requests, rights, store, telemetry, upgrade, user,
};
use global::Global;
use output::{CommandResult, Failure};
use playgate_config::{Inputs, read};
use playgate_ports::zoneinfo;
use playgate_types::VERSION;
use process::wait;

pub fn main() -> ExitCode {
    if let Err(failure) = as_owner::resume() {
        output::print_note(&failure.to_string());
        return failure.exit().into();
    }
    completions::complete_for_shell(help::command);
    // Not taken from the parsed arguments: a command line with a mistake has none.
    let as_json = std::env::args_os().any(|argument| argument == "--json");
    let parse = || {
        let matches = help::command().try_get_matches()?;
        let arguments = Arguments::from_arg_matches(&matches);
        let arguments = arguments.map_err(|mistake| mistake.format(&mut help::command()))?;
        Ok::<_, clap::Error>((arguments, matches))
    };
    let run = || match parse() {
        Ok((arguments, matches)) => run(arguments, &matches),
        Err(text) if text.kind() == ErrorKind::DisplayVersion => {
            version().map(|()| ExitCode::SUCCESS)
        }
        // A request for help is not a failure.
        Err(text) if !as_json || !text.use_stderr() => text.exit(),
        Err(mistake) => Err(usage_failure(&mistake.to_string())),
    };
    let replaced = fleet::run_with_parent().map(|done| done.map(|()| ExitCode::SUCCESS));
    let done = replaced.unwrap_or_else(run);
    match done {
        Ok(code) => code,
        Err(failure) => {
            output::print_note(&match as_json {
                true => failure.to_json().to_string(),
                false => failure.to_string(),
            });
            failure.exit().into()
        }
    }
}

fn version() -> CommandResult {
    let (loaded, _) = read(&Inputs::from_process(None));
    let directory = loaded.and_then(|loaded| loaded.config.schedule.zoneinfo);
    output::line(&format!("playgate {VERSION}"))?;
    let rules = zoneinfo::choose(directory.as_deref());
    output::line(&format!("time zone rules {}", rules.summary()))
}

fn usage_failure(mistake: &str) -> Failure {
    // clap appends the usage after an empty line.
    let message = mistake.split("\n\n").next().unwrap_or(mistake);
    let message = message.strip_prefix("error: ").unwrap_or(message);
    Failure::usage(message.trim()).hint("`--help` shows the usage")
}

fn run(arguments: Arguments, matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let Arguments { global, command } = arguments;
    let global = global.or_environment();
    server::block_file_size();
    if !matches!(command, Command::Demo(_) | Command::Serve(_)) {
        // A server that started this command has blocked its own signals.
        server::unblock_end();
    }
    // Before anything in the data directory is touched.
    if let Some(code) = as_owner::continue_as_owner(&global, matches)? {
        return Ok(code);
    }
    run_here(command, &global).map(|()| ExitCode::SUCCESS)
}

fn run_here(command: Command, global: &Global) -> CommandResult {
    match command {
        Command::Demo(demo) => demo.run(global),
        Command::Serve(serve) => serve.run(global),
        Command::Partner(command) => wait(partner::run(command, global)),
        Command::Operator(command) => wait(operator::run(command, global)),
        Command::Catalog(command) => wait(catalog::run(command, global)),
        Command::Epg(command) => wait(epg::run(command, global)),
        Command::Rights(command) => wait(rights::run(command, global)),
        Command::Rule(command) => wait(rights::run_rule(command, global)),
        Command::User(command) => wait(user::run(command, global)),
        Command::Mail(command) => wait(mail::run(command, global)),
        Command::Telemetry(command) => wait(telemetry::run(command, global)),
        Command::Backup(command) => wait(backup::run(command, global)),
        Command::Audit(command) => wait(audit::run(command, global)),
        Command::Requests(command) => wait(requests::run(command, global)),
        Command::Clock(command) => wait(clock::run(command, global)),
        Command::Lab(command) => wait(lab::run(command, global)),
        Command::Store(command) => wait(store::run(command, global)),
        Command::Config(command) => config::run(command, global),
        Command::Fleet(command) => fleet::run(command, global),
        Command::Doctor(command) => wait(doctor::run(command, global)),
        Command::Healthcheck(command) => wait(healthcheck::run(command, global)),
        Command::Upgrade(command) => wait(upgrade::run(command, global)),
        Command::Completions { shell } => completions::run(shell),
        Command::Man { dir } => man::run(dir.as_deref(), help::command()),
    }
}

#[cfg(test)]
mod tests {
    use clap::{Command as ClapCommand, CommandFactory as _};

    use crate::arguments::Arguments;

    /// The names of the `wanted` commands without sub-commands, such as `backup create`.
    pub(crate) fn command_names(wanted: &dyn Fn(&ClapCommand) -> bool) -> Vec<String> {
        fn visit(
            command: &ClapCommand,
            path: &str,
            wanted: &dyn Fn(&ClapCommand) -> bool,
            out: &mut Vec<String>,
        ) {
            if !command.has_subcommands() && wanted(command) {
                out.push(path.trim().to_owned());
            }
            for sub in command.get_subcommands() {
                visit(sub, &format!("{path} {}", sub.get_name()), wanted, out);
            }
        }
        let mut names = Vec::new();
        visit(&Arguments::command(), "", wanted, &mut names);
        names
    }

    #[test]
    fn every_command_has_json_or_a_documented_reason() {
        let document = include_str!("../../docs/operating.md");
        let (_, table) = document
            .split_once("| Without `--json` | Reason |")
            .unwrap();
        let rows = table.lines().skip(2).take_while(|row| row.starts_with('|'));
        let mut excepted: Vec<_> = rows
            .map(|row| {
                let mut cells = row.split(" | ");
                let command = cells.next().unwrap().trim_start_matches("| `");
                let reason = cells.next().unwrap().trim_end_matches('|').trim();
                assert!(!reason.is_empty(), "{row}");
                command.trim_end_matches('`').to_owned()
            })
            .collect();
        let has_json =
            |command: &ClapCommand| command.get_arguments().any(|one| one.get_id() == "json");
        let mut without = command_names(&|command| !has_json(command));
        excepted.sort();
        without.sort();
        assert_eq!(without, excepted);
    }
}
