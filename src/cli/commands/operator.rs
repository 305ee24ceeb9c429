//! `playgate operator`: who may use the operators' interface over the network.

use clap::{Subcommand, ValueEnum};
use serde_json::json;

use super::tokens::TokenCommand;
use crate::client::path;
use crate::global::Global;
use crate::output::{self, CommandResult};

/// Operators of the administration interface. No token is needed on the administration socket of the data
/// directory
#[derive(Subcommand)]
pub(crate) enum OperatorCommand {
    /// Create an operator and print the token; it cannot be shown again
    Add {
        /// Name
        name: String,
        /// Role
        #[arg(long, value_enum)]
        role: RoleName,
        /// Print {"operatorId","token"}
        #[arg(long)]
        json: bool,
    },
    /// List operators
    List {
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
    /// Remove an operator with all tokens
    #[command(alias = "revoke")]
    Remove {
        /// Id or name
        #[arg(allow_hyphen_values = true)]
        operator: String,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
    /// Manage an operator's tokens
    #[command(subcommand)]
    Token(TokenCommand),
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum RoleName {
    /// Everything
    Admin,
    /// Catalogue and schedule
    Content,
    /// Users, their sessions and their mail
    Agent,
    /// Read-only access to everything except secrets
    Observer,
}

impl RoleName {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Content => "content",
            Self::Agent => "agent",
            Self::Observer => "observer",
        }
    }
}

pub(crate) async fn run(command: OperatorCommand, global: &Global) -> CommandResult {
    // Adding an operator may be the first command of an installation.
    let mut admin = match &command {
        OperatorCommand::Add { .. } => global.admin_or_new().await?,
        _ => global.admin().await?,
    };
    match command {
        OperatorCommand::Add { name, role, json } => {
            let body = json!({"name": name, "role": role.as_str()});
            let made = admin.post(&path(&["operators"]), Some(&body)).await?;
            output::record(&made, json)
        }
        OperatorCommand::List { json } => {
            let operators = admin.get(&path(&["operators"])).await?;
            output::list(
                &operators,
                &[("ID", "operatorId"), ("NAME", "name"), ("ROLE", "role")],
                json,
            )
        }
        OperatorCommand::Remove { operator, json } => {
            admin.delete(&path(&["operators", &operator])).await?;
            let report = json!({"result": "revoked", "operator": operator});
            output::done(&format!("revoked {operator}"), &report, json)
        }
        OperatorCommand::Token(command) => command.run(&mut admin, "operators").await,
    }
}
