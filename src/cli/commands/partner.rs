//! `playgate partner`: partners and their access tokens.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::store::note_aside;
use super::tokens::TokenCommand;
use crate::client::known_names::no_such;
use crate::client::{Admin, path};
use crate::global::Global;
use crate::output::members::{all, number};
use crate::output::{self, CommandResult, Exit, Failure};

/// Partners: operators of client applications, each with its own users
#[derive(Subcommand)]
pub(crate) enum PartnerCommand {
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
    Show(NamedPartner),
    /// Change a partner's settings
    #[command(alias = "set")]
    Change {
        #[command(flatten)]
        partner: NamedPartner,
        /// Unit of durations in its players' telemetry; `default` uses `telemetry.duration_unit`
        #[arg(long, value_name = "UNIT", value_parser = ["ms", "s", "default"])]
        telemetry_duration_unit: String,
    },
    /// Reject all requests of a partner; its users are kept
    Disable(NamedPartner),
    /// Accept requests of a disabled partner again
    Enable(NamedPartner),
    /// Remove a partner and its users
    Remove {
        #[command(flatten)]
        partner: NamedPartner,
        /// Skip the confirmation; required without a terminal
        #[arg(long)]
        yes: bool,
    },
    /// Manage a partner's access tokens
    #[command(subcommand)]
    Token(TokenCommand),
}

#[derive(Args)]
pub(crate) struct NamedPartner {
    /// Id or name
    #[arg(allow_hyphen_values = true)]
    partner: String,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(command: PartnerCommand, global: &Global) -> CommandResult {
    // Adding a partner is the first command of an installation. Any other finds no store only with a wrong path.
    let mut admin = match &command {
        PartnerCommand::Add { .. } => global.admin_or_new().await?,
        _ => global.admin().await?,
    };
    match command {
        PartnerCommand::Add { name, lab, json } => {
            let kind = if lab { "lab" } else { "standard" };
            let body = json!({"name": name, "kind": kind});
            let made = admin.post(&path(&["partners"]), Some(&body)).await?;
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
        PartnerCommand::Show(NamedPartner { partner, json }) => {
            output::record(&find(&mut admin, &partner).await?, json)
        }
        PartnerCommand::Change {
            partner,
            telemetry_duration_unit,
        } => {
            let body = json!({"telemetryDurationUnit": telemetry_duration_unit});
            change(&mut admin, &partner, "changed", &body).await
        }
        PartnerCommand::Disable(partner) => {
            change(&mut admin, &partner, "disabled", &json!({"disabled": true})).await
        }
        PartnerCommand::Enable(partner) => {
            change(&mut admin, &partner, "enabled", &json!({"disabled": false})).await
        }
        PartnerCommand::Remove { partner, yes } => {
            remove(&mut admin, &partner, yes).await?;
            note_aside(global);
            Ok(())
        }
        PartnerCommand::Token(command) => command.run(&mut admin, "partners").await,
    }
}

async fn find(admin: &mut Admin, partner: &str) -> Result<Value, Failure> {
    let partners = admin.get(&path(&["partners"])).await?;
    let named = |one: &&Value| ["partnerId", "name"].iter().any(|of| one[*of] == partner);
    let found = all(&partners).iter().find(named);
    found.cloned().ok_or_else(|| {
        let names = all(&partners).iter().filter_map(|one| one["name"].as_str());
        Failure::new(Exit::NotFound, no_such("partner", partner, names))
            .hint("`playgate partner list` lists all")
    })
}

async fn remove(admin: &mut Admin, named: &NamedPartner, yes: bool) -> CommandResult {
    // The question names the number of users, because their data cannot be restored without a backup.
    let partner = &named.partner;
    let users = number(&find(admin, partner).await?, "users");
    let what = format!("{partner} and all data of its users ({users})");
    output::confirm_removal(yes, &format!("removes {what}"))?;
    admin.delete(&path(&["partners", partner])).await?;
    let report = json!({"result": "removed", "partner": partner, "users": users});
    output::done(&format!("removed {what}"), &report, named.json)
}

async fn change(
    admin: &mut Admin,
    NamedPartner { partner, json }: &NamedPartner,
    result: &str,
    body: &Value,
) -> CommandResult {
    admin.put(&path(&["partners", partner]), body).await?;
    let report = json!({"result": result, "partner": partner});
    output::done(&format!("{result} {partner}"), &report, *json)
}
