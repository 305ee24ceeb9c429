//! `playgate audit`: the audit log.

use clap::Subcommand;

use crate::client::path;
use crate::global::Global;
use crate::output::{self, CommandResult};

/// Audit log: who changed what, and with which result
#[derive(Subcommand)]
pub(crate) enum AuditCommand {
    /// List changes, newest first
    List {
        /// Maximum number of entries
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
        limit: u16,
        /// Only entries before this number
        #[arg(long, value_name = "NUMBER")]
        before: Option<u64>,
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
}

pub(crate) async fn run(command: AuditCommand, global: &Global) -> CommandResult {
    let mut admin = global.admin().await?;
    let AuditCommand::List {
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
        ("TARGET", "target"),
        ("STATUS", "status"),
    ];
    output::list(&changes, &columns, json)
}
