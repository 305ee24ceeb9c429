//! `playgate lab`: faults, resets and scenarios of lab partners, conformance reports.

mod certification;
mod check;
mod client;
mod fault;
mod run;
mod runner;
mod scenario;
mod step_result;
mod xml;

pub(crate) use run::CERTIFICATION;

use clap::Subcommand;
use serde_json::{Value, json};

use crate::client::{Admin, path};
use crate::global::Global;
use crate::output::{self, CommandResult, Exit, Failure, members};

/// Test clients against a lab partner
#[derive(Subcommand)]
pub(crate) enum LabCommand {
    /// Judge how a client uses the interface; exit code 1 if it breaks a rule that it must keep
    Check(check::CheckCommand),
    /// Make requests of a lab partner fail
    #[command(subcommand)]
    Fault(fault::FaultCommand),
    /// Run a scenario, or all of them as a certification, and report whether the client got through
    Run(run::Run),
    /// Remove users, faults and clock offset of a lab partner, and add the users of a fixture
    Reset {
        /// Id or name
        #[arg(allow_hyphen_values = true)]
        partner: String,
        /// `demo`, `empty`, or the name of a file in `fixtures` of the data directory
        #[arg(long, default_value = "empty")]
        fixture: String,
        /// Print {"removed","users"}
        #[arg(long)]
        json: bool,
    },
}

/// The names of the shipped scenarios.
pub(crate) fn scenario_names() -> impl Iterator<Item = &'static str> {
    scenario::SHIPPED.iter().map(|(name, _)| *name)
}

pub(crate) async fn run(command: LabCommand, global: &Global) -> CommandResult {
    match command {
        LabCommand::Check(command) => check::run(command, global).await,
        LabCommand::Fault(command) => fault::run(command, global).await,
        LabCommand::Run(scenario) => run::run(scenario, global).await,
        LabCommand::Reset {
            partner,
            fixture,
            json,
        } => {
            let mut admin = connect(global).await?;
            let target = path(&["partners", &partner, "reset"]);
            let body = json!({"fixture": fixture});
            let done = admin.post(&target, Some(&body)).await?;
            output::record(&done, json)
        }
    }
}

/// Connects to the running server. Faults and clocks exist only in its memory, so opening the store instead would be
/// useless.
pub(crate) async fn connect(global: &Global) -> Result<Admin, Failure> {
    let loaded = global.load()?;
    let place = loaded.config.server.data_dir.display().to_string();
    Admin::running(&loaded).await?.ok_or_else(|| {
        Failure::failed(format!("no server is running on {place}"))
            .hint("start it with `playgate serve`, or pass its --data-dir")
    })
}

/// Returns the named lab partner, or else the only one.
async fn partner(admin: &mut Admin, named: Option<String>) -> Result<String, Failure> {
    if let Some(named) = named {
        return Ok(named);
    }
    let partners = admin.get(&path(&["partners"])).await?;
    let labs = members::all(&partners).iter();
    let labs: Vec<&Value> = labs.filter(|partner| partner["kind"] == "lab").collect();
    let name = |partner| members::text(partner, "name").to_owned();
    match labs[..] {
        [only] => Ok(name(only)),
        [] => Err(Failure::new(Exit::NotFound, "no lab partner exists")
            .hint("playgate partner add NAME --lab")),
        _ => {
            let names: Vec<String> = labs.into_iter().map(name).collect();
            let which = names.join(", ");
            Err(Failure::usage(format!("pass --partner: there are {which}")))
        }
    }
}
