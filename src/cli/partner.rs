//! `playgate partner`: partners and their access tokens.

use clap::Subcommand;
use http::Method;
use serde_json::json;

use super::admin::path;
use super::exit::Outcome;
use super::token::Tokens;
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
    Token(Tokens),
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
        Command::Token(command) => command.run(&mut admin, "partners").await,
    }
}
