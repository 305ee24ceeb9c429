//! The command line: noun then verb, one file per group. It reads arguments and prints; what is
//! done is done by the operators' interface, in a running server or in this process.

mod admin;
mod admin_socket;
mod audit;
mod backup;
mod catalog;
mod clock;
mod completions;
mod config;
mod demo;
mod descriptors;
mod doctor;
mod epg;
mod epg_report;
mod exit;
mod explain_output;
mod inherited_sockets;
mod listeners;
mod mail;
mod missing_media;
mod operator;
mod output;
mod partner;
mod playable;
mod privileges;
mod read_secret;
mod reexec;
mod reload;
mod rights;
mod serve;
mod server;
mod signals;
mod startup;
mod store;
mod systemd;
mod telemetry;
mod tokens;
mod user;
mod user_import;
mod verify_subprocess;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::app;
use crate::config::{Inputs, Loaded, Problems, Provenance, load, read};
use crate::types::VERSION;
use admin::Admin;
use exit::{Exit, Failure, Outcome};

/// The partner interface of a video-streaming platform in one binary.
///
/// Try it: `playgate demo`. Run it: `playgate serve`. The other commands work with the server
/// running and without it.
#[derive(Parser)]
#[command(name = "playgate", version = VERSION, max_term_width = 100, after_help = EXIT_CODES)]
struct Arguments {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 not found, \
                          4 held for approval, 5 fatal input or output.";

/// Over what stands in every command's help.
const EVERYWHERE: &str = "Options of every command";

/// What every command takes.
#[derive(Args)]
struct Global {
    /// The configuration file; without it /etc/playgate/playgate.toml, if there is one
    #[arg(long, global = true, value_name = "FILE", help_heading = EVERYWHERE)]
    config: Option<PathBuf>,
    /// Where everything is kept
    #[arg(long, global = true, value_name = "DIR", help_heading = EVERYWHERE)]
    data_dir: Option<PathBuf>,
}

impl Global {
    /// The inputs of the configuration, with the flags that every command takes.
    fn inputs(&self) -> Result<Inputs, Failure> {
        let mut inputs = Inputs::from_process(self.config.clone());
        if let Some(directory) = &self.data_dir {
            let text = directory
                .to_str()
                .ok_or_else(|| Failure::usage("--data-dir is not UTF-8"))?;
            inputs
                .flags
                .push(("data_dir", "--data-dir", text.to_owned()));
        }
        Ok(inputs)
    }

    /// The configuration.
    fn load(&self) -> Result<Loaded, Failure> {
        configured(&self.inputs()?)
    }

    /// The operators' interface, wherever it is. A data directory that has no store is somewhere else than
    /// meant: nothing is made in it.
    async fn admin(&self) -> Result<Admin, Failure> {
        self.admin_over(|loaded| {
            if app::has_store(&loaded.config) {
                return Ok(());
            }
            let said = format!("there is no store in {}", loaded.config.server.data_dir.display());
            Err(Failure::new(Exit::NotFound, said).hint(
                "name the server's data with --data-dir, or its configuration with --config; `partner add` begins a new store",
            ))
        })
        .await
    }

    /// The same for what one begins with, where the store may be new.
    async fn admin_or_new(&self) -> Result<Admin, Failure> {
        self.admin_over(|loaded| {
            if !app::has_store(&loaded.config) {
                let place = loaded.config.server.data_dir.display();
                output::print_note(&format!("{place} has no store: a new one is made"));
            }
            Ok(())
        })
        .await
    }

    /// The operators' interface over a configuration that fits, or that of a server that runs in spite of
    /// its mistakes.
    async fn admin_over(&self, fits: impl FnOnce(&Loaded) -> Outcome) -> Result<Admin, Failure> {
        match self.load() {
            Ok(loaded) => {
                fits(&loaded)?;
                Admin::connect(loaded).await
            }
            Err(mistaken) => self.in_spite_of_mistakes().await?.ok_or(mistaken),
        }
    }

    /// A server that goes on with the configuration of before while the present one has mistakes: what
    /// operators do need not wait for that. Only where the data directory is named is it known to be
    /// the one that is meant.
    async fn in_spite_of_mistakes(&self) -> Result<Option<Admin>, Failure> {
        let (Some(loaded), _) = read(&self.inputs()?) else {
            return Ok(None);
        };
        let mut named = loaded.effective.iter().filter(|key| key.key == "data_dir");
        if named.all(|key| key.origin == Provenance::Default) {
            return Ok(None);
        }
        let admin = Admin::running(&loaded).await?;
        if admin.is_some() {
            output::print_note(
                "warning: the configuration has mistakes (`playgate config check` lists them); the \
                 server goes on with the one before",
            );
        }
        Ok(admin)
    }
}

/// All mistakes of a configuration as one failure.
fn mistaken(problems: &Problems) -> Failure {
    let listed = problems.to_string().replace('\n', "\n  ");
    Failure::usage(format!("the configuration has mistakes\n  {listed}"))
}

/// The same for a process that has only begun: whatever it does with a data directory begins with this.
fn configured(inputs: &Inputs) -> Result<Loaded, Failure> {
    let loaded = load(inputs).map_err(|problems| mistaken(&problems))?;
    privileges::drop_to_owner_of(&loaded.config.server.data_dir);
    Ok(loaded)
}

/// Loads a configuration for whoever asks what is wrong with it: what it names is looked at as well,
/// files, keys and templates, and all mistakes come at once.
fn examined(inputs: &Inputs) -> Result<Loaded, Problems> {
    let (loaded, mut problems) = read(inputs);
    for wrong in loaded.iter().flat_map(|loaded| app::check(&loaded.config)) {
        problems.add(None, wrong.to_string());
    }
    problems.or(loaded)
}

#[derive(Subcommand)]
enum Command {
    /// Show everything at once: sample data, a playable clip, and the calls to paste
    Demo(demo::Demo),
    /// Run the server
    Serve(serve::Serve),
    /// Partners and their access tokens
    #[command(subcommand)]
    Partner(partner::Command),
    /// Operators of the administration interface
    #[command(subcommand)]
    Operator(operator::Command),
    /// Livestreams, assets, offers, keys and rights, from one file
    #[command(subcommand)]
    Catalog(catalog::Command),
    /// The programme guide
    #[command(subcommand)]
    Epg(epg::Command),
    /// What may be done with broadcasts
    #[command(subcommand)]
    Rights(rights::Command),
    /// Rules on what may be done with broadcasts
    #[command(subcommand)]
    Rule(rights::RuleCommand),
    /// Users, their offers, sessions and PINs
    #[command(subcommand)]
    User(user::Command),
    /// Mail that was sent, or is kept in the sink
    #[command(subcommand)]
    Mail(mail::Command),
    /// What players reported
    #[command(subcommand)]
    Telemetry(telemetry::Command),
    /// Backups of the store: made, listed, verified, brought back
    #[command(subcommand)]
    Backup(backup::Command),
    /// What operators have changed
    #[command(subcommand)]
    Audit(audit::Command),
    /// Accept the machine's clock after a jump
    #[command(subcommand)]
    Clock(clock::Command),
    /// Integrity of the store
    #[command(subcommand)]
    Store(store::Command),
    /// Check and show the configuration, and list its keys
    #[command(subcommand)]
    Config(config::Command),
    /// Look at everything that the appliance stands on, and say what mends it
    Doctor(doctor::Doctor),
    /// Write a shell's completion script
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: completions::Shell,
    },
    /// Write the manual page, as troff
    Man {
        /// Write a page for each command into this directory instead
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
}

/// Reads the arguments and runs the command.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::print_note(&failure.to_string());
            failure.exit().into()
        }
    }
}

fn run(arguments: Arguments) -> Outcome {
    let Arguments { global, command } = arguments;
    match command {
        Command::Demo(demo) => demo.run(&global),
        Command::Serve(serve) => serve.run(&global),
        Command::Partner(command) => wait(partner::run(command, &global)),
        Command::Operator(command) => wait(operator::run(command, &global)),
        Command::Catalog(command) => wait(catalog::run(command, &global)),
        Command::Epg(command) => wait(epg::run(command, &global)),
        Command::Rights(command) => wait(rights::run(command, &global)),
        Command::Rule(command) => wait(rights::run_rule(command, &global)),
        Command::User(command) => wait(user::run(command, &global)),
        Command::Mail(command) => wait(mail::run(command, &global)),
        Command::Telemetry(command) => wait(telemetry::run(command, &global)),
        Command::Backup(command) => wait(backup::run(command, &global)),
        Command::Audit(command) => wait(audit::run(command, &global)),
        Command::Clock(command) => wait(clock::run(command, &global)),
        Command::Store(command) => wait(store::run(command, &global)),
        Command::Config(command) => config::run(command, &global),
        Command::Doctor(command) => wait(doctor::run(command, &global)),
        Command::Completions { shell } => completions::run(shell),
        Command::Man { dir } => completions::man(dir.as_deref()),
    }
}

/// Runs a client of the operators' interface to its end.
fn wait(command: impl Future<Output = Outcome>) -> Outcome {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Fatal, error.to_string()))?
        .block_on(command)
}
