//! `playgate partner`: partners and their access tokens.

use clap::Subcommand;
use http::Method;
use serde_json::json;

use super::admin::path;
use super::exit::Outcome;
use super::{Global, output};

/// Partners: client applications' operators, each with its own users.
#[derive(Subcommand)]
pub enum Command {
    /// Make a partner; its access token is shown this once
    Add {
        /// What to call it
        name: String,
        /// Print {"partnerId","accessToken"}
        #[arg(long)]
        json: bool,
    },
    /// List the partners
    List {
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
    /// Remove a partner with its users
    Remove {
        /// Id or name
        #[arg(allow_hyphen_values = true)]
        partner: String,
    },
    /// Access tokens of a partner
    #[command(subcommand)]
    Token(Token),
}

/// What can be done with access tokens.
#[derive(Subcommand)]
pub enum Token {
    /// Make a further token, shown this once; the others stay valid
    Add {
        /// Id or name
        #[arg(allow_hyphen_values = true)]
        partner: String,
        /// Print {"tokenId","accessToken"}
        #[arg(long)]
        json: bool,
    },
    /// List the tokens of a partner, without the tokens themselves
    List {
        /// Id or name
        #[arg(allow_hyphen_values = true)]
        partner: String,
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
    /// End a token; requests with it are refused at once
    Revoke {
        /// Id or name
        #[arg(allow_hyphen_values = true)]
        partner: String,
        /// The id of the token, from `token list`
        token: String,
    },
}

/// Runs the command.
pub async fn run(command: Command, global: &Global) -> Outcome {
    let mut admin = global.admin().await?;
    match command {
        Command::Add { name, json } => {
            let body = json!({"name": name});
            let made = admin
                .call(Method::POST, &path(&["partners"]), Some(&body))
                .await?;
            output::record(&made, json)
        }
        Command::List { json } => {
            let partners = admin.get(&path(&["partners"])).await?;
            output::list(
                &partners,
                &[("ID", "partnerId"), ("NAME", "name"), ("USERS", "users")],
                json,
            )
        }
        Command::Remove { partner } => {
            admin
                .call(Method::DELETE, &path(&["partners", &partner]), None)
                .await?;
            output::note(&format!("removed {partner}"));
            Ok(())
        }
        Command::Token(Token::Add { partner, json }) => {
            let tokens = path(&["partners", &partner, "tokens"]);
            let made = admin.call(Method::POST, &tokens, None).await?;
            output::record(&made, json)
        }
        Command::Token(Token::List { partner, json }) => {
            let tokens = admin.get(&path(&["partners", &partner, "tokens"])).await?;
            output::list(
                &tokens,
                &[("ID", "tokenId"), ("SINCE", "createdTimestamp")],
                json,
            )
        }
        Command::Token(Token::Revoke { partner, token }) => {
            let token = path(&["partners", &partner, "tokens", &token]);
            admin.call(Method::DELETE, &token, None).await?;
            output::note("revoked");
            Ok(())
        }
    }
}
