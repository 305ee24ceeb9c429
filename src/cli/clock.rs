//! `playgate clock`: confirms the system clock after a jump.

use clap::Subcommand;
use http::Method;

use super::admin::path;
use super::exit::CommandResult;
use super::{Global, output};

/// The clock of the service
#[derive(Subcommand)]
pub(super) enum ClockCommand {
    /// Confirm that the clock is right after a jump: deletions by age resume at once instead of after ten
    /// minutes. Anything that has expired by this clock stays expired
    Accept {
        /// Print {"now","offset","movable"}
        #[arg(long)]
        json: bool,
    },
}

pub(super) async fn run(command: ClockCommand, global: &Global) -> CommandResult {
    let ClockCommand::Accept { json } = command;
    let mut admin = global.admin().await?;
    let target = path(&["clock", "accept"]);
    let clock = admin.call(Method::POST, &target, None).await?;
    if json {
        return output::json(&clock);
    }
    output::print_note("accepted");
    Ok(())
}
