//! The command line: noun then verb, one file per group. Commands parse arguments and print results. The
//! work itself is done through the operators' interface, in a running server or in this process.

mod admin;
mod admin_socket;
mod as_owner;
mod audit;
mod backup;
mod catalog;
mod clock;
mod completions;
mod config;
mod csv;
mod demo;
mod descriptors;
mod doctor;
mod epg;
mod epg_report;
mod examples;
mod exit;
mod explain_output;
mod fleet;
mod healthcheck;
mod held_lock;
mod inherited_sockets;
mod lab;
mod lab_partners;
mod listeners;
mod mail;
mod members;
mod missing_media;
mod operator;
mod output;
mod partner;
mod playable;
mod privileges;
mod quality_chart;
mod quality_report;
mod read_secret;
mod reexec;
mod reload;
mod requests;
mod rights;
mod run_limited;
mod serve;
mod server;
mod server_signals;
mod signals;
mod startup;
mod store;
mod systemd;
mod telemetry;
mod time_arg;
mod tokens;
mod upgrade;
mod user;
mod user_devices;
mod user_import;
mod verify_subprocess;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::app;
use crate::config::{ConfigProblems, Inputs, Loaded, Provenance, load, read};
use crate::ports::zoneinfo;
use crate::types::VERSION;
use admin::Admin;
use exit::{CommandResult, Exit, Failure};

/// Partner interface of a video-streaming platform, in one binary.
///
/// Try it: `playgate demo`. Run it: `playgate serve`. The other commands work with or without a running
/// server.
#[derive(Parser)]
#[command(name = "playgate", version = VERSION, max_term_width = 100, after_help = EXIT_CODES)]
struct Arguments {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 not found, \
                          4 held for approval, 5 fatal I/O error.";

const GLOBAL_HEADING: &str = "Global options";

#[derive(Args)]
struct Global {
    /// Configuration file [default: /etc/playgate/playgate.toml, if it exists]
    #[arg(long, global = true, value_name = "FILE", help_heading = GLOBAL_HEADING)]
    config: Option<PathBuf>,
    /// Data directory
    #[arg(long, global = true, value_name = "DIR", help_heading = GLOBAL_HEADING)]
    data_dir: Option<PathBuf>,
}

impl Global {
    fn inputs(&self) -> Result<Inputs, Failure> {
        let mut inputs = Inputs::from_process(self.config.clone());
        if let Some(directory) = &self.data_dir {
            let text = directory
                .to_str()
                .ok_or_else(|| Failure::usage("--data-dir is not UTF-8"))?;
            inputs
                .flags
                // The flag is a layer of the configuration, so that precedence and messages are the same as for any
                // other key.
                .push(("data_dir", "--data-dir", text.to_owned()));
        }
        Ok(inputs)
    }

    fn load(&self) -> Result<Loaded, Failure> {
        load_at_start(&self.inputs()?)
    }

    /// Connects to the operators' interface. Fails if the data directory has no store: the path is probably
    /// wrong, so no store is created there.
    async fn admin(&self) -> Result<Admin, Failure> {
        self.admin_over(|loaded| {
            if app::has_store(&loaded.config) {
                return Ok(());
            }
            let said = format!("no store in {}", loaded.config.server.data_dir.display());
            Err(Failure::new(Exit::NotFound, said).hint(
                "pass the server's --data-dir or --config; `partner add` creates a new store",
            ))
        })
        .await
    }

    /// Like [`Global::admin`], for first-time commands that may create the store.
    async fn admin_or_new(&self) -> Result<Admin, Failure> {
        self.admin_over(|loaded| {
            if !app::has_store(&loaded.config) {
                // A fleet member whose disk is missing must not get a new store: no other member would have its
                // changes.
                fleet::membership(&loaded.config)?;
                let place = loaded.config.server.data_dir.display();
                output::print_note(&format!("{place} has no store: creating a new one"));
            }
            Ok(())
        })
        .await
    }

    /// Connects with the loaded configuration if `fits` accepts it. With an invalid configuration, connects
    /// only to a server that is already running.
    async fn admin_over(
        &self,
        fits: impl FnOnce(&Loaded) -> CommandResult,
    ) -> Result<Admin, Failure> {
        match self.load() {
            Ok(loaded) => {
                fits(&loaded)?;
                Admin::connect(loaded).await
            }
            // A mistake in the file must not lock operators out of the server that still runs.
            Err(config_failure) => self
                .admin_with_invalid_config()
                .await?
                .ok_or(config_failure),
        }
    }

    /// Connects to a server that still runs with its previous configuration while the current one is
    /// invalid, so that operators can keep working. Requires an explicit data directory.
    async fn admin_with_invalid_config(&self) -> Result<Option<Admin>, Failure> {
        // `read` returns an invalid configuration too, with defaults in place of the invalid values.
        let (Some(loaded), _) = read(&self.inputs()?) else {
            return Ok(None);
        };
        let mut named = loaded.effective.iter().filter(|key| key.key == "data_dir");
        if named.all(|key| key.origin == Provenance::Default) {
            // The default directory could belong to another server.
            return Ok(None);
        }
        let admin = Admin::running(&loaded).await?;
        if admin.is_some() {
            output::print_note(
                "warning: the configuration is invalid (`playgate config check` lists the errors); the \
                 server keeps running with the previous one",
            );
        }
        Ok(admin)
    }
}

fn config_failure(problems: &ConfigProblems) -> Failure {
    let listed = problems.to_string().replace('\n', "\n  ");
    Failure::usage(format!("invalid configuration\n  {listed}"))
}

fn load_at_start(inputs: &Inputs) -> Result<Loaded, Failure> {
    load(inputs).map_err(|problems| config_failure(&problems))
}

fn load_and_check(inputs: &Inputs) -> Result<Loaded, ConfigProblems> {
    let (loaded, mut problems) = read(inputs);
    for wrong in loaded.iter().flat_map(|loaded| app::check(&loaded.config)) {
        // The files that keys name are read here too: an unusable certificate or template must not be found only at the
        // restart.
        problems.add(None, wrong.to_string());
    }
    problems.or(loaded)
}

#[derive(Subcommand)]
enum Command {
    /// Run a demo: sample data, a playable clip and example calls to paste
    Demo(demo::Demo),
    /// Run the server
    Serve(serve::Serve),
    /// Manage partners and their access tokens
    #[command(subcommand)]
    Partner(partner::PartnerCommand),
    /// Manage operators of the administration interface
    #[command(subcommand)]
    Operator(operator::OperatorCommand),
    /// Import and export the catalogue: livestreams, assets, offers, keys, rights
    #[command(subcommand)]
    Catalog(catalog::CatalogCommand),
    /// Import and inspect the programme guide (EPG)
    #[command(subcommand)]
    Epg(epg::EpgCommand),
    /// Set the rights of livestreams and single broadcasts
    #[command(subcommand)]
    Rights(rights::RightsCommand),
    /// Manage rules on the rights of broadcasts
    #[command(subcommand)]
    Rule(rights::RuleCommand),
    /// Manage users: offers, sessions, PINs
    #[command(subcommand)]
    User(user::UserCommand),
    /// Show sent and stored mail, send a test mail
    #[command(subcommand)]
    Mail(mail::MailCommand),
    /// Export and report playback telemetry
    #[command(subcommand)]
    Telemetry(telemetry::TelemetryCommand),
    /// Create, list, verify and restore backups
    #[command(subcommand)]
    Backup(backup::BackupCommand),
    /// Show the audit log of operators' changes
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    #[command(subcommand)]
    Requests(requests::RequestsCommand),
    /// Show and move the clock of a lab, accept the system clock after a jump
    #[command(subcommand)]
    Clock(clock::ClockCommand),
    /// Test clients: faults, resets and scenarios of lab partners, conformance reports
    #[command(subcommand)]
    Lab(lab::LabCommand),
    /// Verify, reindex, export and repair the store
    #[command(subcommand)]
    Store(store::StoreCommand),
    /// Check and show the configuration, list its keys
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Run several machines as one, on an etcd
    #[command(subcommand)]
    Fleet(fleet::FleetCommand),
    /// Check the installation and suggest fixes
    Doctor(doctor::Doctor),
    /// Check whether the server is ready
    Healthcheck(healthcheck::Healthcheck),
    /// Check a version before an upgrade, go back to the version before
    #[command(subcommand)]
    Upgrade(upgrade::UpgradeCommand),
    /// Print a shell completion script
    Completions {
        /// Shell
        #[arg(value_enum)]
        shell: completions::Shell,
    },
    /// Print the manual page (troff)
    Man {
        /// Write one page per command into this directory instead
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
}

#[must_use]
pub fn main() -> ExitCode {
    if let Err(failure) = as_owner::resume() {
        output::print_note(&failure.to_string());
        return failure.exit().into();
    }
    completions::complete_for_shell();
    // Not taken from the parsed arguments: a command line with a mistake has none.
    let as_json = std::env::args_os().any(|argument| argument == "--json");
    let parse = || {
        let matches = Arguments::command().try_get_matches()?;
        let arguments = Arguments::from_arg_matches(&matches);
        let arguments = arguments.map_err(|mistake| mistake.format(&mut Arguments::command()))?;
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
    server_signals::block_file_size();
    if !matches!(command, Command::Demo(_) | Command::Serve(_)) {
        // A server that started this command has blocked its own signals.
        server_signals::unblock_end();
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
        Command::Man { dir } => completions::man(dir.as_deref()),
    }
}

fn wait<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    // The runtime would panic without free descriptors.
    descriptors::check()?;
    // One thread: a command waits for one request at a time.
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Fatal, error.to_string()))?
        .block_on(command)
}

#[cfg(test)]
mod tests {
    use clap::{Command as ClapCommand, CommandFactory as _};

    use super::Arguments;

    /// The names of the `wanted` commands without sub-commands, such as `backup create`.
    pub(super) fn command_names(wanted: &dyn Fn(&ClapCommand) -> bool) -> Vec<String> {
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
