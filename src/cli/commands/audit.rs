//! `playgate audit`: the audit log.

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::client::time_arg::{TimeRange, server_time};
use crate::client::{Admin, path, with_query};
use crate::global::Global;
use crate::output::members::all;
use crate::output::{self, CommandResult, Failure};

/// Audit log: who changed what, and with which result
#[derive(Subcommand)]
pub(crate) enum AuditCommand {
    /// List changes, newest first
    List {
        #[command(flatten)]
        filter: AuditFilter,
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

#[derive(Args)]
pub(crate) struct AuditFilter {
    /// Only changes by this operator, or by a person who claimed this name
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Only actions that contain this text, such as user or admin_import_catalog
    #[arg(long, value_name = "TEXT")]
    action: Option<String>,
    /// Only targets that contain this text, such as the id of a user
    #[arg(long, value_name = "TEXT")]
    target: Option<String>,
    #[command(flatten)]
    range: TimeRange,
}

impl AuditFilter {
    fn selects(&self, entry: &Value, [from, to]: [Option<i64>; 2]) -> bool {
        let contains = |member: &str, part: &Option<String>| {
            let text = entry[member].as_str().unwrap_or_default().to_lowercase();
            part.as_deref()
                .is_none_or(|part| text.contains(&part.to_lowercase()))
        };
        let is_by = |name: &str| ["name", "claimed"].iter().any(|of| entry[*of] == name);
        let at = entry["timestamp"].as_i64().unwrap_or_default();
        self.by.as_deref().is_none_or(is_by)
            && contains("action", &self.action)
            && contains("target", &self.target)
            && from.is_none_or(|from| at >= from)
            && to.is_none_or(|to| at < to)
    }
}

/// Entries that are asked for at once.
const PAGE: usize = 1_000;

/// Reads the log backwards, until there are enough entries or the log begins. It has an end: old entries are removed.
async fn selected(
    admin: &mut Admin,
    filter: &AuditFilter,
    limit: usize,
    mut before: Option<u64>,
) -> Result<Value, Failure> {
    let range = filter.range.instants(server_time(admin).await?);
    let mut found = Vec::new();
    loop {
        let (number, size) = (before.map(|number| number.to_string()), PAGE.to_string());
        let parameters = [
            ("limit", Some(size.as_str())),
            ("before", number.as_deref()),
        ];
        let page = admin
            .get(&with_query(path(&["audit"]), &parameters))
            .await?;
        let entries = all(&page);
        found.extend(
            entries
                .iter()
                .filter(|entry| filter.selects(entry, range))
                .cloned(),
        );
        let last = entries.last();
        // Entries are in the order of time.
        let older = last.and_then(|last| last["timestamp"].as_i64()) < range[0];
        before = last.and_then(|last| last["number"].as_u64());
        if entries.len() < PAGE || found.len() >= limit || older || before.is_none() {
            found.truncate(limit);
            return Ok(found.into());
        }
    }
}

pub(crate) async fn run(command: AuditCommand, global: &Global) -> CommandResult {
    let mut admin = global.admin().await?;
    let AuditCommand::List {
        filter,
        limit,
        before,
        json,
    } = command;
    let changes = selected(&mut admin, &filter, limit.into(), before).await?;
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
