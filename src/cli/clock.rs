//! `playgate clock`: an operator's word on the clock.

use clap::Subcommand;
use http::Method;

use super::admin::path;
use super::exit::Outcome;
use super::{Global, output};

/// The clock that the service reads.
#[derive(Subcommand)]
pub enum Command {
    /// Say that the clock is right after a jump: deletions by age go on at once, instead of after ten
    /// minutes. What has expired by it stays expired
    Accept {
        /// Print {"now","offset","movable"}
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command.
pub async fn run(command: Command, global: &Global) -> Outcome {
    let Command::Accept { json } = command;
    let mut admin = global.admin().await?;
    let target = path(&["clock", "accept"]);
    let clock = admin.call(Method::POST, &target, None).await?;
    if json {
        return output::json(&clock);
    }
    output::print_note("accepted");
    Ok(())
}
