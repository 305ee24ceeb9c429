//! `playgate audit`: what operators have changed.

use clap::Subcommand;

use super::admin::path;
use super::exit::Outcome;
use super::{Global, output};

/// What operators have changed: who, what, of whom, and what came of it.
#[derive(Subcommand)]
pub enum Command {
    /// List changes, the newest first
    List {
        /// How many
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
        limit: u16,
        /// Those before the one of this number
        #[arg(long, value_name = "NUMBER")]
        before: Option<u64>,
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command.
pub async fn run(command: Command, global: &Global) -> Outcome {
    let mut admin = global.admin().await?;
    let Command::List {
        limit,
        before,
        json,
    } = command;
    let mut target = format!("{}?limit={limit}", path(&["audit"]));
    if let Some(before) = before {
        target.push_str(&format!("&before={before}"));
    }
    let changes = admin.get(&target).await?;
    let columns = [
        ("NUMBER", "number"),
        ("TIME", "timestamp"),
        ("WHO", "name"),
        ("CLAIMED", "claimed"),
        ("ACTION", "action"),
        ("OF", "target"),
        ("STATUS", "status"),
    ];
    output::list(&changes, &columns, json)
}
