//! The user that a command line names.

use clap::Args;
use serde_json::json;

use crate::client::{path, with_query};
use crate::output::{self, CommandResult};

#[derive(Args)]
pub(crate) struct NamedUser {
    /// User id or e-mail address
    #[arg(allow_hyphen_values = true)]
    pub(crate) user: String,
    /// Partner (id or name) of an e-mail address; not needed if there is only one partner
    #[arg(long)]
    partner: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl NamedUser {
    pub(crate) fn path(&self, below: &[&str]) -> String {
        let mut segments = vec!["users", self.user.as_str()];
        segments.extend(below);
        with_query(path(&segments), &[("partner", self.partner.as_deref())])
    }

    pub(crate) fn done(&self, result: &str, note: &str) -> CommandResult {
        let report = json!({"result": result, "user": self.user});
        output::done(note, &report, self.json)
    }
}
