//! `playgate partner`: partners and their access tokens.

use clap::Subcommand;
use http::Method;
use serde_json::{Value, json};

use super::admin::{Admin, path};
use super::exit::{Exit, Failure, Outcome};
use super::tokens::Tokens;
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
    /// Show a partner
    Show {
        /// Id or name
        #[arg(allow_hyphen_values = true)]
        partner: String,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
    /// Change a partner's settings
    Set {
        /// Id or name
        #[arg(allow_hyphen_values = true)]
        partner: String,
        /// The unit of durations in its players' events; `default` is that of `telemetry.duration_unit`
        #[arg(long, value_name = "UNIT", value_parser = ["ms", "s", "default"])]
        telemetry_duration_unit: String,
    },
    /// Refuse all requests of a partner from now on; its users stay
    Disable {
        /// Id or name
        #[arg(allow_hyphen_values = true)]
        partner: String,
    },
    /// Take requests of a disabled partner again
    Enable {
        /// Id or name
        #[arg(allow_hyphen_values = true)]
        partner: String,
    },
    /// Remove a partner with its users; on a terminal it asks first
    Remove {
        /// Id or name
        #[arg(allow_hyphen_values = true)]
        partner: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Access tokens of a partner
    #[command(subcommand)]
    Token(Tokens),
}

/// Runs the command.
pub async fn run(command: Command, global: &Global) -> Outcome {
    let mut admin = match &command {
        Command::Add { .. } => global.admin_or_new().await?,
        _ => global.admin().await?,
    };
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
        Command::Show { partner, json } => output::record(&find(&mut admin, &partner).await?, json),
        Command::Set {
            partner,
            telemetry_duration_unit,
        } => {
            let body = json!({"telemetryDurationUnit": telemetry_duration_unit});
            change(&mut admin, &partner, &body).await?;
            output::print_note(&format!("changed {partner}"));
            Ok(())
        }
        Command::Disable { partner } => set_disabled(&mut admin, &partner, true).await,
        Command::Enable { partner } => set_disabled(&mut admin, &partner, false).await,
        Command::Remove { partner, yes } => remove(&mut admin, &partner, yes).await,
        Command::Token(command) => command.run(&mut admin, "partners").await,
    }
}

/// The partner of an id or a name.
async fn find(admin: &mut Admin, partner: &str) -> Result<Value, Failure> {
    let partners = admin.get(&path(&["partners"])).await?;
    let named = |one: &&Value| ["partnerId", "name"].iter().any(|of| one[*of] == partner);
    let found = partners.as_array().and_then(|all| all.iter().find(named));
    found.cloned().ok_or_else(|| {
        let words = format!("there is no partner {partner}; `playgate partner list` has them all");
        Failure::new(Exit::NotFound, words)
    })
}

async fn remove(admin: &mut Admin, partner: &str, yes: bool) -> Outcome {
    let users = output::text(&find(admin, partner).await?, "users");
    let what = format!("{partner} with all that is known of its users ({users})");
    if !yes && !output::confirmed(&format!("Remove {what}?")) {
        return Err(Failure::failed("nothing was removed"));
    }
    admin
        .call(Method::DELETE, &path(&["partners", partner]), None)
        .await?;
    output::print_note(&format!("removed {what}"));
    Ok(())
}

async fn change(admin: &mut Admin, partner: &str, body: &Value) -> Outcome {
    admin
        .call(Method::PUT, &path(&["partners", partner]), Some(body))
        .await?;
    Ok(())
}

async fn set_disabled(admin: &mut Admin, partner: &str, disabled: bool) -> Outcome {
    change(admin, partner, &json!({"disabled": disabled})).await?;
    let done = if disabled { "disabled" } else { "enabled" };
    output::print_note(&format!("{done} {partner}"));
    Ok(())
}
