//! `playgate rights` and `playgate rule`: what may be done with broadcasts, changed one at a time. A
//! whole set of rules is better kept in a catalogue file.

use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Map, Value, json};

use super::admin::path;
use super::exit::{Failure, Outcome};
use super::{Global, catalog, output};

/// Rights of broadcasts.
#[derive(Subcommand)]
pub enum Command {
    /// Set the defaults of a livestream, or what is said of one broadcast alone
    Set(SetRights),
    /// Say nothing more of one broadcast: rules and defaults hold again
    Clear {
        /// The broadcast's id
        broadcast: String,
        /// Print the change as JSON
        #[arg(long)]
        json: bool,
    },
}

/// Rules on the rights of broadcasts: of those that hold for a broadcast, the last has the word.
#[derive(Subcommand)]
pub enum RuleCommand {
    /// List the rules in their order
    List {
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
    /// Add a rule behind all others
    Add(Add),
    /// Remove a rule by its number; those behind it move up
    Remove {
        /// Its number in the list
        number: usize,
        /// Print the change as JSON
        #[arg(long)]
        json: bool,
    },
}

/// Whose rights are set, and to what.
#[derive(Args)]
pub struct SetRights {
    #[command(flatten)]
    whose: RightsTarget,
    #[command(flatten)]
    says: RightsArgs,
    /// Print the change as JSON
    #[arg(long)]
    json: bool,
}

/// A livestream or a broadcast.
#[derive(Args)]
#[group(required = true, multiple = false)]
struct RightsTarget {
    /// The livestream whose defaults change as far as they are given
    #[arg(long, value_name = "ID")]
    livestream: Option<String>,
    /// The broadcast; what was said of it before is replaced
    #[arg(long, value_name = "ID")]
    broadcast: Option<String>,
}

/// A rule: what it is about, and what it says of that.
#[derive(Args)]
pub struct Add {
    /// A livestream that it is about, any number of times; all of them without it
    #[arg(long, value_name = "ID")]
    livestream: Vec<String>,
    /// Titles that it is about, with `*` and `?`
    #[arg(long, value_name = "PATTERN")]
    title: Option<String>,
    /// Categories that it is about, with `*` and `?`
    #[arg(long, value_name = "PATTERN")]
    category: Option<String>,
    /// Starts that it is about: from 2026-01-31T18:00:00Z or, every day, from 18:00
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// The end of that
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// The lowest age rating that it is about
    #[arg(long, value_name = "AGE")]
    rating_from: Option<u8>,
    /// The highest age rating that it is about
    #[arg(long, value_name = "AGE")]
    rating_to: Option<u8>,
    #[command(flatten)]
    says: RightsArgs,
    /// Print the change as JSON
    #[arg(long)]
    json: bool,
}

/// What is said about rights; what is not given stays as it was.
#[derive(Args)]
struct RightsArgs {
    /// Whether it may be seen live
    #[arg(long, value_name = "on|off", value_parser = switch)]
    live: Option<bool>,
    /// Whether it may be caught up with at all
    #[arg(long, value_name = "on|off", value_parser = switch)]
    catchup: Option<bool>,
    /// For how many days it may be caught up with
    #[arg(long, value_name = "DAYS")]
    catchup_days: Option<u16>,
    /// Whether it can be started over while it runs
    #[arg(long, value_name = "on|off", value_parser = switch)]
    start_over: Option<bool>,
    /// Whether it can be paused
    #[arg(long, value_name = "on|off", value_parser = switch)]
    pause: Option<bool>,
    /// Whether one can go back in it
    #[arg(long, value_name = "on|off", value_parser = switch)]
    rewind: Option<bool>,
    /// Whether one can go forward in it
    #[arg(long, value_name = "on|off", value_parser = switch)]
    fast_forward: Option<bool>,
}

fn switch(text: &str) -> Result<bool, &'static str> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("must be on or off"),
    }
}

impl RightsArgs {
    /// In the names of catalogue files, as the interface takes it.
    fn body(&self) -> Map<String, Value> {
        let extended = object(&[
            ("pause", json!(self.pause)),
            ("rewind", json!(self.rewind)),
            ("fastForward", json!(self.fast_forward)),
        ]);
        object(&[
            ("live", json!(self.live)),
            ("catchup", json!(self.catchup)),
            ("catchup_days", json!(self.catchup_days)),
            ("start_over", json!(self.start_over)),
            ("extended_rights", table(extended)),
        ])
    }
}

/// The members that are given.
fn object(members: &[(&str, Value)]) -> Map<String, Value> {
    let given = members.iter().filter(|(_, value)| !value.is_null());
    given
        .map(|(name, value)| ((*name).to_owned(), value.clone()))
        .collect()
}

/// A table with something in it.
fn table(members: Map<String, Value>) -> Value {
    match members.is_empty() {
        true => Value::Null,
        false => Value::Object(members),
    }
}

impl Add {
    fn body(&self) -> Value {
        let window = object(&[("from", json!(self.from)), ("to", json!(self.to))]);
        let rating = object(&[
            ("from", json!(self.rating_from)),
            ("to", json!(self.rating_to)),
        ]);
        let livestream = match self.livestream.as_slice() {
            [] => Value::Null,
            some => json!(some),
        };
        let mut body = object(&[
            ("livestream", livestream),
            ("window", table(window)),
            ("title", json!(self.title)),
            ("category", json!(self.category)),
            ("rating", table(rating)),
        ]);
        body.extend(self.says.body());
        Value::Object(body)
    }
}

/// Runs `playgate rights`.
pub async fn run(command: Command, global: &Global) -> Outcome {
    match command {
        Command::Set(SetRights { whose, says, json }) => {
            let target = match (&whose.livestream, &whose.broadcast) {
                (Some(livestream), None) => path(&["livestreams", livestream, "rights"]),
                (None, Some(broadcast)) => path(&["broadcasts", broadcast, "rights"]),
                _ => return Err(Failure::usage("name a livestream or a broadcast")),
            };
            let body = Value::Object(says.body());
            change(global, Method::PUT, &target, Some(&body), json).await
        }
        Command::Clear { broadcast, json } => {
            let target = path(&["broadcasts", &broadcast, "rights"]);
            change(global, Method::DELETE, &target, None, json).await
        }
    }
}

/// Runs `playgate rule`.
pub async fn run_rule(command: RuleCommand, global: &Global) -> Outcome {
    match command {
        RuleCommand::List { json } => {
            let rules = global.admin().await?.get(&path(&["rules"])).await?;
            output::list(&rules, &[("NUMBER", "number"), ("RULE", "text")], json)
        }
        RuleCommand::Add(add) => {
            let target = path(&["rules"]);
            change(global, Method::POST, &target, Some(&add.body()), add.json).await
        }
        RuleCommand::Remove { number, json } => {
            let target = path(&["rules", &number.to_string()]);
            change(global, Method::DELETE, &target, None, json).await
        }
    }
}

async fn change(
    global: &Global,
    method: Method,
    target: &str,
    body: Option<&Value>,
    json: bool,
) -> Outcome {
    let mut admin = global.admin().await?;
    let report = admin.call(method, target, body).await?;
    catalog::show(&report, json)
}

/// Runs `playgate epg why`: one screen on which every word stands that was said about a broadcast,
/// and whose counts.
pub async fn why(global: &Global, broadcast: &str, json: bool) -> Outcome {
    let target = path(&["broadcasts", broadcast, "why"]);
    let why = global.admin().await?.get(&target).await?;
    if json {
        return output::json(&why);
    }
    let text = |member: &str| output::text(&why, member);
    output::line(&format!(
        "{} ({}) on {}",
        text("title"),
        text("broadcastId"),
        text("livestreamId")
    ))?;
    output::line(&format!(
        "{} to {} ({})",
        clock(&why, "start"),
        clock(&why, "stop"),
        text("zone")
    ))?;
    output::line(&format!(
        "rated {}, categories: {}\n",
        text("pgAge"),
        text("categories")
    ))?;
    let mut passed = Vec::new();
    for layer in elements(&why, "layers") {
        let by = output::text(layer, "by");
        if layer.get("applies") != Some(&Value::Bool(true)) {
            passed.push(format!("{by} ({})", output::text(layer, "misfit")));
            continue;
        }
        let says = match layer.get("rule") {
            Some(_) => output::text(layer, "rule"),
            None => said(layer.get("says")),
        };
        output::line(&format!("{by:<11} {says}"))?;
    }
    if !passed.is_empty() {
        output::line(&format!("do not fit  {}", passed.join(", ")))?;
    }
    output::line("")?;
    let rights: Vec<Value> = elements(&why, "rights").cloned().collect();
    let columns = [("RIGHT", "right"), ("VALUE", "value"), ("BY", "by")];
    output::list(&Value::Array(rights), &columns, false)?;
    let live = match why.get("liveAvailable") {
        Some(Value::Bool(true)) => "may be seen live",
        _ => "may not be seen live",
    };
    let catchup = match why.get("catchupInterval") {
        Some(window) => format!(
            "catch-up from {} to {}",
            clock_in(window, "from", &text("zone")),
            clock_in(window, "to", &text("zone"))
        ),
        None => "no catch-up".to_owned(),
    };
    output::line(&format!("\n{live}; {catchup}"))
}

fn elements<'a>(value: &'a Value, member: &str) -> impl Iterator<Item = &'a Value> {
    let list = value.get(member).and_then(Value::as_array);
    list.into_iter().flatten()
}

/// What a layer without a rule says, in one line.
fn said(says: Option<&Value>) -> String {
    let members = says.and_then(Value::as_object).into_iter().flatten();
    let mut words = Vec::new();
    for (name, value) in members {
        match value.as_object() {
            Some(within) => {
                words.extend(within.iter().map(|(name, value)| format!("{name} {value}")))
            }
            None => words.push(format!("{name} {value}")),
        }
    }
    words.join(", ")
}

/// A time of a broadcast on the clocks of its livestream.
fn clock(why: &Value, member: &str) -> String {
    clock_in(why, member, &output::text(why, "zone"))
}

fn clock_in(value: &Value, member: &str, zone: &str) -> String {
    let at = value.get(member).and_then(Value::as_i64);
    let utc = at.and_then(|at| chrono::DateTime::from_timestamp(at, 0));
    match (utc, zone.parse::<chrono_tz::Tz>()) {
        (Some(utc), Ok(zone)) => {
            let local = utc.with_timezone(&zone);
            local.format("%Y-%m-%d %H:%M:%S %:z").to_string()
        }
        _ => output::text(value, member),
    }
}
