//! `partner token` and `operator token`. To rotate a token: add, switch over, remove.

use clap::Subcommand;
use serde_json::json;

use crate::client::{Admin, path};
use crate::output::{self, CommandResult};

/// Tokens of a partner or an operator
#[derive(Subcommand)]
pub(crate) enum TokenCommand {
    /// Create another token, shown only once; existing tokens stay valid
    Add {
        /// Id or name of the owner
        #[arg(allow_hyphen_values = true)]
        owner: String,
        /// Label to recognise the token by
        #[arg(long)]
        label: Option<String>,
        /// Print {"tokenId","accessToken"}, for an operator {"tokenId","token"}
        #[arg(long)]
        json: bool,
    },
    /// List tokens with label and last use, without their values
    List {
        /// Id or name of the owner
        #[arg(allow_hyphen_values = true)]
        owner: String,
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
    /// Remove a token; requests with it are rejected at once
    #[command(alias = "revoke")]
    Remove {
        /// Id or name of the owner
        #[arg(allow_hyphen_values = true)]
        owner: String,
        /// Token id from `token list`
        token: String,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
}

impl TokenCommand {
    pub(crate) async fn run(self, admin: &mut Admin, collection: &str) -> CommandResult {
        match self {
            Self::Add { owner, label, json } => {
                let tokens = path(&[collection, &owner, "tokens"]);
                let body = json!({"label": label});
                let made = admin.post(&tokens, Some(&body)).await?;
                output::record(&made, json)
            }
            Self::List { owner, json } => {
                let tokens = admin.get(&path(&[collection, &owner, "tokens"])).await?;
                let columns = [
                    ("ID", "tokenId"),
                    ("LABEL", "label"),
                    ("SINCE", "createdTimestamp"),
                    ("LAST USE", "lastUsedTimestamp"),
                ];
                output::list(&tokens, &columns, json)
            }
            Self::Remove { owner, token, json } => {
                let target = path(&[collection, &owner, "tokens", &token]);
                admin.delete(&target).await?;
                let report = json!({"result": "revoked", "tokenId": token});
                output::done("revoked", &report, json)
            }
        }
    }
}
