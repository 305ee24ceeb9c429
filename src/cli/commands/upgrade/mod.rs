//! `playgate upgrade`: tries a version on a copy of the store before it serves, and goes back to the version
//! before.

mod candidate;
mod check;
mod rollback;

use std::path::PathBuf;

use clap::Subcommand;

use crate::global::Global;
use crate::output::CommandResult;

/// Upgrades: try a version before it serves, go back to the version before
#[derive(Subcommand)]
pub(crate) enum UpgradeCommand {
    /// Check that a version can serve with this configuration and store; exit code 1 if it cannot
    ///
    /// The version opens a copy of the store in the data directory, upgrades its format, verifies every record
    /// and checks the configuration. The server, the store and the configuration are not changed. Telemetry
    /// events are not copied. Another version is executed: check only one that you trust.
    Check {
        /// Execute this binary, with the rights of the data directory's owner, and let it check itself [default: the one
        /// that runs]
        #[arg(long, value_name = "FILE", conflicts_with = "deb")]
        binary: Option<PathBuf>,
        /// Execute the binary in this Debian package, likewise
        #[arg(long, value_name = "FILE")]
        deb: Option<PathBuf>,
        /// Print {"ok","version","problems","records","startSeconds","verifySeconds","memoryBytes","diskBytes"}
        #[arg(long)]
        json: bool,
    },
    /// Go back to the version that the last upgrade of the package replaced, and restart
    ///
    /// Data are kept: only the binary and the unit are put back. It is refused before the service stops if
    /// the earlier version cannot read the store or the configuration.
    Rollback {
        /// Skip the confirmation
        #[arg(long)]
        yes: bool,
        /// Print {"result","version"}
        #[arg(long)]
        json: bool,
    },
}

pub(crate) async fn run(command: UpgradeCommand, global: &Global) -> CommandResult {
    match command {
        UpgradeCommand::Check { binary, deb, json } => {
            let report = match (binary, deb) {
                (Some(binary), _) => candidate::check_binary(&binary, global).await,
                (None, Some(deb)) => candidate::check_deb(&deb, global).await?,
                (None, None) => check::check(global).await?,
            };
            report.print(json)
        }
        UpgradeCommand::Rollback { yes, json } => rollback::run(yes, json, global).await,
    }
}
