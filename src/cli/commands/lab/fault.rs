//! `playgate lab fault`: adds, lists and removes faults.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::client::path;
use crate::global::Global;
use crate::output::{self, CommandResult, Failure};

#[derive(Subcommand)]
pub(crate) enum FaultCommand {
    /// Add a fault
    Add(Box<AddFault>),
    /// List faults and how often they were applied
    List {
        /// Id or name of the lab partner; not needed if there is only one
        #[arg(long)]
        partner: Option<String>,
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
    /// Remove one fault or all
    #[command(alias = "clear")]
    Remove {
        /// Id from `lab fault list`; all if absent
        fault: Option<String>,
        /// Id or name of the lab partner; not needed if there is only one
        #[arg(long)]
        partner: Option<String>,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args)]
pub(crate) struct AddFault {
    /// The fault as JSON, instead of the options: {"route","match","after","times","probability","seed",
    /// "do","until"}
    #[arg(conflicts_with_all = ["route", "conditions", "actions"], required_unless_present = "route")]
    fault: Option<String>,
    /// Id or name of the lab partner; not needed if there is only one
    #[arg(long)]
    partner: Option<String>,
    /// Route: an operation id of the interface (/docs), `license` or `any`
    #[arg(long, requires = "actions")]
    route: Option<String>,
    #[command(flatten)]
    conditions: Conditions,
    #[command(flatten)]
    action: Action,
    /// Print the fault as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
#[group(id = "conditions", multiple = true)]
struct Conditions {
    /// Only requests of this user, by id or e-mail
    #[arg(long)]
    user: Option<String>,
    /// Only requests about this asset or livestream
    #[arg(long)]
    asset: Option<String>,
    /// Only requests of this device
    #[arg(long)]
    device: Option<String>,
    /// Only requests of this playback session
    #[arg(long)]
    session: Option<String>,
    /// Serve so many matching requests normally first
    #[arg(long, value_name = "N")]
    after: Option<u64>,
    /// Apply the fault this many times
    #[arg(long, value_name = "N")]
    times: Option<u64>,
    /// Share of the matching requests, above 0 and at most 1
    #[arg(long, value_name = "P")]
    probability: Option<f64>,
    /// Seed of the random choice; the same seed repeats a run
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Remove the fault after this time, such as 10m
    #[arg(long, value_name = "SPAN")]
    until: Option<String>,
}

#[derive(Args)]
#[group(id = "actions", multiple = true)]
struct Action {
    /// Refuse with this error code
    #[arg(long, value_name = "CODE")]
    refuse: Option<String>,
    /// Delay the answer, such as 8s
    #[arg(long, value_name = "SPAN")]
    delay: Option<String>,
    /// Add a random delay of up to this
    #[arg(long, value_name = "SPAN", requires = "delay")]
    jitter: Option<String>,
    /// Answer with this status only, as a proxy would
    #[arg(long, value_name = "STATUS")]
    status: Option<u16>,
    /// Header Retry-After of that answer, in seconds
    #[arg(long, value_name = "SECONDS", requires = "status")]
    retry_after: Option<u32>,
    /// Cut the connection before the answer, or after half of its body
    #[arg(long, value_parser = ["head", "body"])]
    cut: Option<String>,
    /// Spoil the license
    #[arg(long, value_parser = ["garbage", "empty", "foreignKid"])]
    license: Option<String>,
    /// Spoil the playlist address of a preflight
    #[arg(long, value_parser = ["expired", "missing", "stale"])]
    playlist: Option<String>,
}

impl AddFault {
    fn body(self) -> Result<Value, Failure> {
        if let Some(text) = self.fault {
            return serde_json::from_str(&text)
                .map_err(|error| Failure::usage(format!("the fault is not JSON: {error}")));
        }
        let (when, what) = (self.conditions, self.action);
        Ok(object([
            ("route", self.route.map(Value::from)),
            (
                "match",
                Some(object([
                    ("user", when.user.map(Value::from)),
                    ("asset", when.asset.map(Value::from)),
                    ("device", when.device.map(Value::from)),
                    ("session", when.session.map(Value::from)),
                ])),
            ),
            ("after", when.after.map(Value::from)),
            ("times", when.times.map(Value::from)),
            ("probability", when.probability.map(Value::from)),
            ("seed", when.seed.map(Value::from)),
            ("until", when.until.map(Value::from)),
            (
                "do",
                Some(object([
                    ("refuse", what.refuse.map(Value::from)),
                    ("delay", what.delay.map(Value::from)),
                    ("jitter", what.jitter.map(Value::from)),
                    ("status", what.status.map(Value::from)),
                    ("retryAfter", what.retry_after.map(Value::from)),
                    ("cut", what.cut.map(Value::from)),
                    ("license", what.license.map(Value::from)),
                    ("playlist", what.playlist.map(Value::from)),
                ])),
            ),
        ]))
    }
}

fn object<const N: usize>(members: [(&str, Option<Value>); N]) -> Value {
    let present = members.into_iter();
    let present = present.filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(present.collect::<Map<_, _>>())
}

pub(super) async fn run(command: FaultCommand, global: &Global) -> CommandResult {
    let mut admin = super::connect(global).await?;
    match command {
        FaultCommand::Add(mut add) => {
            let partner = super::partner(&mut admin, add.partner.take()).await?;
            let (json, faults) = (add.json, path(&["partners", &partner, "faults"]));
            let body = add.body()?;
            let added = admin.post(&faults, Some(&body)).await?;
            output::record(&added, json)
        }
        FaultCommand::List { partner, json } => {
            let partner = super::partner(&mut admin, partner).await?;
            let faults = admin.get(&path(&["partners", &partner, "faults"])).await?;
            let columns = [
                ("ID", "faultId"),
                ("ROUTE", "route"),
                ("MATCH", "match"),
                ("DO", "do"),
                ("CALLS", "calls"),
                ("APPLIED", "applied"),
            ];
            output::list(&faults, &columns, json)
        }
        FaultCommand::Remove {
            fault,
            partner,
            json,
        } => {
            let partner = super::partner(&mut admin, partner).await?;
            let mut segments = vec!["partners", &*partner, "faults"];
            segments.extend(fault.as_deref());
            admin.delete(&path(&segments)).await?;
            let report = json!({"result": "cleared", "partner": partner, "faultId": fault});
            output::done("cleared", &report, json)
        }
    }
}
