//! `partner token` and `operator token`: to rotate one, add, switch over, revoke.

use clap::Subcommand;
use http::Method;

use super::admin::{Admin, path};
use super::exit::Outcome;
use super::output;

/// What can be done with the tokens of a partner or an operator.
#[derive(Subcommand)]
pub enum Tokens {
    /// Make a further token, shown this once; the others stay valid
    Add {
        /// Id or name of whose it is
        #[arg(allow_hyphen_values = true)]
        of: String,
        /// Print {"tokenId","accessToken"}, of an operator {"tokenId","token"}
        #[arg(long)]
        json: bool,
    },
    /// List the tokens, without the tokens themselves
    List {
        /// Id or name of whose they are
        #[arg(allow_hyphen_values = true)]
        of: String,
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
    /// End a token; requests with it are refused at once
    Revoke {
        /// Id or name of whose it is
        #[arg(allow_hyphen_values = true)]
        of: String,
        /// The id of the token, from `token list`
        token: String,
    },
}

impl Tokens {
    /// Runs the command on the tokens below a collection, `partners` or `operators`.
    pub async fn run(self, admin: &mut Admin, collection: &str) -> Outcome {
        match self {
            Self::Add { of, json } => {
                let tokens = path(&[collection, &of, "tokens"]);
                let made = admin.call(Method::POST, &tokens, None).await?;
                output::record(&made, json)
            }
            Self::List { of, json } => {
                let tokens = admin.get(&path(&[collection, &of, "tokens"])).await?;
                let columns = [("ID", "tokenId"), ("SINCE", "createdTimestamp")];
                output::list(&tokens, &columns, json)
            }
            Self::Revoke { of, token } => {
                let token = path(&[collection, &of, "tokens", &token]);
                admin.call(Method::DELETE, &token, None).await?;
                output::print_note("revoked");
                Ok(())
            }
        }
    }
}
