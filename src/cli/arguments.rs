//! The arguments of the command line: a noun, then a verb.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use super::commands;
use super::demo::Demo;
use super::doctor::Doctor;
use super::global::Global;
use super::output::EXIT_CODES;
use super::server::Serve;
use playgate_types::VERSION;

/// Partner interface of a video-streaming platform, in one binary.
///
/// Try it: `playgate demo`. Run it: `playgate serve`. The other commands work with or without a running
/// server.
#[derive(Parser)]
#[command(name = "playgate", version = VERSION, max_term_width = 100, after_help = EXIT_CODES)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) global: Global,
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Subcommand)]
pub(super) enum Command {
    /// Run a demo: sample data, a playable clip and example calls to paste
    Demo(Demo),
    /// Run the server
    Serve(Serve),
    /// Manage partners and their access tokens
    #[command(subcommand)]
    Partner(commands::partner::PartnerCommand),
    /// Manage operators of the administration interface
    #[command(subcommand)]
    Operator(commands::operator::OperatorCommand),
    /// Import and export the catalogue: livestreams, assets, offers, keys, rights
    #[command(subcommand)]
    Catalog(commands::catalog::CatalogCommand),
    /// Import and inspect the programme guide (EPG)
    #[command(subcommand)]
    Epg(commands::epg::EpgCommand),
    /// Set the rights of livestreams and single broadcasts
    #[command(subcommand)]
    Rights(commands::rights::RightsCommand),
    /// Manage rules on the rights of broadcasts
    #[command(subcommand)]
    Rule(commands::rights::RuleCommand),
    /// Manage users: offers, sessions, PINs
    #[command(subcommand)]
    User(commands::user::UserCommand),
    /// Show sent and stored mail, send a test mail
    #[command(subcommand)]
    Mail(commands::mail::MailCommand),
    /// Export and report playback telemetry
    #[command(subcommand)]
    Telemetry(commands::telemetry::TelemetryCommand),
    /// Create, list, verify and restore backups
    #[command(subcommand)]
    Backup(commands::backup::BackupCommand),
    /// Show the audit log of operators' changes
    #[command(subcommand)]
    Audit(commands::audit::AuditCommand),
    #[command(subcommand)]
    Requests(commands::requests::RequestsCommand),
    /// Show and move the clock of a lab, accept the system clock after a jump
    #[command(subcommand)]
    Clock(commands::clock::ClockCommand),
    /// Test clients: faults, resets and scenarios of lab partners, conformance reports
    #[command(subcommand)]
    Lab(commands::lab::LabCommand),
    /// Verify, reindex, export and repair the store
    #[command(subcommand)]
    Store(commands::store::StoreCommand),
    /// Check and show the configuration, list its keys
    #[command(subcommand)]
    Config(commands::config::ConfigCommand),
    /// Run several machines as one, on an etcd
    #[command(subcommand)]
    Fleet(commands::fleet::FleetCommand),
    /// Check the installation and suggest fixes
    Doctor(Doctor),
    /// Check whether the server is ready
    Healthcheck(commands::healthcheck::Healthcheck),
    /// Check a version before an upgrade, go back to the version before
    #[command(subcommand)]
    Upgrade(commands::upgrade::UpgradeCommand),
    /// Print a shell completion script
    Completions {
        /// Shell
        #[arg(value_enum)]
        shell: commands::completions::Shell,
    },
    /// Print the manual page (troff)
    Man {
        /// Write one page per command into this directory instead
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
}
