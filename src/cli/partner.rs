//! `playgate partner`: partners and their access tokens.

use clap::Subcommand;
use http::Method;
use serde_json::{Value, json};

use super::admin::{Admin, path};
use super::exit::{CommandResult, Exit, Failure};
use super::members::all;
use super::tokens::TokenCommand;
use super::{Global, output};

/// Partners: operators of client applications, each with its own users
#[derive(Subcommand)]
pub(super) enum PartnerCommand {
    /// Create a partner and print its access token; it cannot be shown again
    Add {
        /// Name
        name: String,
        /// Create a lab partner, for testing clients; refused in production
        #[arg(long)]
        lab: bool,
        /// Print {"partnerId","accessToken"}
        #[arg(long)]
        json: bool,
    },
    /// List partners
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
        /// Unit of durations in its players' telemetry; `default` uses `telemetry.duration_unit`
        #[arg(long, value_name = "UNIT", value_parser = ["ms", "s", "default"])]
        telemetry_duration_unit: String,
    },
    /// Reject all requests of a partner; its users are kept
    Disable {
        /// Id or name
        #[arg(allow_hyphen_values = true)]
        partner: String,
    },
    /// Accept requests of a disabled partner again
    Enable {
        /// Id or name
        #[arg(allow_hyphen_values = true)]
        partner: String,
    },
    /// Remove a partner and its users; asks for confirmation on a terminal
    Remove {
        /// Id or name
        #[arg(allow_hyphen_values = true)]
        partner: String,
        /// Skip the confirmation
        #[arg(long)]
        yes: bool,
    },
    /// Manage a partner's access tokens
    #[command(subcommand)]
    Token(TokenCommand),
}

pub(super) async fn run(command: PartnerCommand, global: &Global) -> CommandResult {
    // Adding a partner is the first command of an installation. Any other finds no store only with a wrong path.
    let mut admin = match &command {
        PartnerCommand::Add { .. } => global.admin_or_new().await?,
        _ => global.admin().await?,
    };
    match command {
        PartnerCommand::Add { name, lab, json } => {
            let kind = if lab { "lab" } else { "standard" };
            let body = json!({"name": name, "kind": kind});
            let made = admin
                .call(Method::POST, &path(&["partners"]), Some(&body))
                .await?;
            output::record(&made, json)
        }
        PartnerCommand::List { json } => {
            let partners = admin.get(&path(&["partners"])).await?;
            output::list(
                &partners,
                &[
                    ("ID", "partnerId"),
                    ("NAME", "name"),
                    ("KIND", "kind"),
                    ("USERS", "users"),
                ],
                json,
            )
        }
        PartnerCommand::Show { partner, json } => {
            output::record(&find(&mut admin, &partner).await?, json)
        }
        PartnerCommand::Set {
            partner,
            telemetry_duration_unit,
        } => {
            let body = json!({"telemetryDurationUnit": telemetry_duration_unit});
            change(&mut admin, &partner, &body).await?;
            output::print_note(&format!("changed {partner}"));
            Ok(())
        }
        PartnerCommand::Disable { partner } => set_disabled(&mut admin, &partner, true).await,
        PartnerCommand::Enable { partner } => set_disabled(&mut admin, &partner, false).await,
        PartnerCommand::Remove { partner, yes } => remove(&mut admin, &partner, yes).await,
        PartnerCommand::Token(command) => command.run(&mut admin, "partners").await,
    }
}

async fn find(admin: &mut Admin, partner: &str) -> Result<Value, Failure> {
    let partners = admin.get(&path(&["partners"])).await?;
    let named = |one: &&Value| ["partnerId", "name"].iter().any(|of| one[*of] == partner);
    let found = all(&partners).iter().find(named);
    found.cloned().ok_or_else(|| {
        let words = format!("no partner {partner}; `playgate partner list` lists all");
        Failure::new(Exit::NotFound, words)
    })
}

async fn remove(admin: &mut Admin, partner: &str, yes: bool) -> CommandResult {
    // The question names the number of users, because their data cannot be restored without a backup.
    let users = output::text(&find(admin, partner).await?, "users");
    let what = format!("{partner} and all data of its users ({users})");
    if !yes && !output::confirmed(&format!("Remove {what}?")) {
        return Err(Failure::failed("cancelled: nothing was removed"));
    }
    admin
        .call(Method::DELETE, &path(&["partners", partner]), None)
        .await?;
    output::print_note(&format!("removed {what}"));
    Ok(())
}

async fn change(admin: &mut Admin, partner: &str, body: &Value) -> CommandResult {
    admin
        .call(Method::PUT, &path(&["partners", partner]), Some(body))
        .await?;
    Ok(())
}

async fn set_disabled(admin: &mut Admin, partner: &str, disabled: bool) -> CommandResult {
    change(admin, partner, &json!({"disabled": disabled})).await?;
    let done = if disabled { "disabled" } else { "enabled" };
    output::print_note(&format!("{done} {partner}"));
    Ok(())
}
