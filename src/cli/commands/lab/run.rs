//! `playgate lab run`: runs a scenario, or the certification, against the requests of a client.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::certification;
use super::client::Client;
use super::runner::{ClientWait, ScenarioRunner};
use super::scenario::{SHIPPED, Scenario, shipped};
use super::step_result::{self, suite};
use super::xml::XML_HEAD;
use crate::client::known_names::no_such;
use crate::global::Global;
use crate::output::{self, CommandResult, Failure};
use crate::process::signals::Signals;
use playgate_types::{Malformed, parse_span};

pub(crate) const CERTIFICATION: &str = "certification";
/// Time for the first request of the client.
const FIRST_REQUEST_WITHIN: Duration = Duration::from_secs(300);

#[derive(Args)]
pub(crate) struct Run {
    /// Scenario file, the name of a shipped scenario, or `certification`: the shipped ones one after the other, each judged as
    /// `lab check` does, with one report; without it, the shipped ones are listed
    file: Option<String>,
    /// Id or name of the lab partner; not needed if there is only one
    #[arg(long)]
    partner: Option<String>,
    /// User of the client, by id or e-mail, for steps that change a user [default: the user of the demo]
    #[arg(long, default_value = "demo@example.com", hide_default_value = true)]
    user: String,
    /// Start the clock at the first request of the client; steps at 0s run before it
    #[arg(long)]
    wait: bool,
    /// Start the client with this shell command, for each scenario; SIGTERM ends it. LAB_SCENARIO is the scenario's name.
    /// Implies --wait
    #[arg(long, value_name = "LINE")]
    command: Option<String>,
    /// Time for the first request of the client, and from there for the scenario [default: 5m, and the scenario's own end]
    #[arg(long, value_name = "SPAN", value_parser = limit)]
    limit: Option<Duration>,
    /// Only these scenarios of the certification, separated by commas
    #[arg(long, value_name = "SCENARIOS", value_delimiter = ',')]
    only: Vec<String>,
    /// TOML file with rules that the certification waives, as for `lab check`
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Write the report of the certification as an HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the result as a JUnit file
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

fn limit(text: &str) -> Result<Duration, Malformed> {
    let span = parse_span(text)?;
    match span {
        Duration::ZERO => Err(Malformed("must be above 0")),
        span => Ok(span),
    }
}

pub(super) async fn run(run: Run, global: &Global) -> CommandResult {
    match run.file.as_deref() {
        None => {
            let columns = [("SCENARIO", "scenario"), ("NAME", "name"), ("WHAT", "text")];
            output::list(&shipped(), &columns, run.json)
        }
        Some(CERTIFICATION) => certify(run, global).await,
        Some(_) if !run.only.is_empty() || run.profile.is_some() || run.html.is_some() => {
            let what = "--only, --profile and --html need `lab run certification`";
            Err(Failure::usage(what))
        }
        Some(file) => {
            // Read before anything is changed: a mistake in the file must not leave half a scenario behind.
            let scenario = read(file, run.limit)?;
            one(run, &scenario, global).await
        }
    }
}

fn read(file: &str, limit: Option<Duration>) -> Result<Scenario, Failure> {
    let mut scenario = Scenario::read(file)?;
    if let Some(limit) = limit {
        scenario.end_within(limit)?;
    }
    Ok(scenario)
}

async fn certify(run: Run, global: &Global) -> CommandResult {
    let names = SHIPPED.iter().map(|(name, _)| *name);
    let unknown = |wanted: &&String| !names.clone().any(|name| name == **wanted);
    if let Some(unknown) = run.only.iter().find(unknown) {
        return Err(Failure::usage(format!(
            "--only: {}",
            no_such("scenario", unknown, names.clone())
        ))
        .hint("`playgate lab run` lists them"));
    }
    let chosen = names.filter(|name| run.only.is_empty() || run.only.iter().any(|one| one == name));
    let scenarios: Result<Vec<_>, _> = chosen.map(|name| read(name, run.limit)).collect();
    let client = match run.command {
        Some(line) => Client::Command(line),
        None if output::can_ask() => Client::Person,
        None => Client::Elsewhere,
    };
    let waiting = ClientWait {
        for_client: true,
        limit: run.limit.unwrap_or(FIRST_REQUEST_WITHIN),
        for_start: true,
    };
    let options = certification::CertificationOptions {
        scenarios: scenarios?,
        waiting,
        waived: run
            .profile
            .as_deref()
            .map(super::check::waived)
            .transpose()?,
        html: run.html,
        junit: run.junit,
        json: run.json,
    };
    let mut admin = super::connect(global).await?;
    let partner = super::partner(&mut admin, run.partner).await?;
    let runner = ScenarioRunner::new(global, admin, partner, run.user, client);
    certification::run(runner, &options).await
}

async fn one(run: Run, scenario: &Scenario, global: &Global) -> CommandResult {
    let waiting = ClientWait {
        for_client: run.wait || run.command.is_some(),
        limit: run.limit.unwrap_or(FIRST_REQUEST_WITHIN),
        for_start: false,
    };
    let client = run.command.map_or(Client::Elsewhere, Client::Command);
    let mut admin = super::connect(global).await?;
    let partner = super::partner(&mut admin, run.partner).await?;
    let mut runner = ScenarioRunner::new(global, admin, partner, run.user, client);
    let mut signals = Signals::listen()?;
    let played = runner.run(scenario, &waiting, &mut signals).await?;
    let report = step_result::report(scenario, &played.steps);
    if let Some(place) = &run.junit {
        let text = format!("{XML_HEAD}{}", suite(&report));
        fs::write(place, text).map_err(|error| Failure::file(place, &error))?;
    }
    if run.json {
        output::json(&report)?;
    }
    let failures: Vec<&String> = played
        .steps
        .iter()
        .filter_map(|step| step.failure.as_ref())
        .collect();
    match failures.first() {
        None => Ok(()),
        Some(why) if waiting.for_client && !played.heard => {
            Err(Failure::failed(format!("{}: {why}", scenario.name)).hint(runner.advice()))
        }
        Some(_) => Err(Failure::failed(format!(
            "{}: {} of {} steps failed",
            scenario.name,
            failures.len(),
            played.steps.len()
        ))),
    }
}
