//! `playgate rights` and `playgate rule`: change rights of broadcasts one at a time. Keep a whole set of
//! rules in a catalogue file instead.

use chrono::SecondsFormat;
use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Map, Value, json};

use super::catalog;
use crate::client::time_arg::{Day, TimeArg, server_time};
use crate::client::{Admin, path, with_query};
use crate::global::Global;
use crate::output::members::elements;
use crate::output::{self, CommandResult, Failure};

/// Rights of broadcasts
#[derive(Subcommand)]
pub(crate) enum RightsCommand {
    /// Change the default rights of a livestream, or override those of one broadcast
    #[command(alias = "set")]
    Change(SetRights),
    /// Remove the override of a broadcast
    #[command(alias = "clear")]
    Remove {
        /// Broadcast id
        broadcast: String,
        /// Print the change as JSON
        #[arg(long)]
        json: bool,
    },
}

/// Rules on the rights of broadcasts; the last matching rule wins
#[derive(Subcommand)]
pub(crate) enum RuleCommand {
    /// List the rules in order
    List {
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
    /// Add a rule at the end
    Add(AddRule),
    /// Remove a rule by number; later rules move up
    Remove {
        /// Number from `rule list`
        number: usize,
        /// Print the change as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args)]
pub(crate) struct SetRights {
    #[command(flatten)]
    scope: RightsTarget,
    #[command(flatten)]
    rights: RightsArgs,
    /// Print the change as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct RightsTarget {
    /// Broadcast id; replaces its previous override
    broadcast: Option<String>,
    /// Livestream; only the given rights change
    #[arg(long, value_name = "ID")]
    livestream: Option<String>,
    // Scripts may still use this form; `rights remove` never had it.
    #[arg(long = "broadcast", value_name = "ID", hide = true)]
    named_broadcast: Option<String>,
}

/// A rule: what it matches and the rights it sets.
#[derive(Args)]
pub(crate) struct AddRule {
    /// Match a livestream; may be repeated [default: all livestreams]
    #[arg(long, value_name = "ID")]
    livestream: Vec<String>,
    /// Match titles by glob (`*`, `?`)
    #[arg(long, value_name = "PATTERN")]
    title: Option<String>,
    /// Match categories by glob (`*`, `?`)
    #[arg(long, value_name = "PATTERN")]
    category: Option<String>,
    /// Match start times from this time on: "2026-01-31 18:00" in `schedule.zone`, 2026-01-31T18:00:00Z or, every day, 18:00
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Match start times before this time
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Match age ratings from this age on
    #[arg(long, value_name = "AGE")]
    rating_from: Option<u8>,
    /// Match age ratings up to this age
    #[arg(long, value_name = "AGE")]
    rating_to: Option<u8>,
    #[command(flatten)]
    rights: RightsArgs,
    /// Take rights from every broadcast, with a rule that has no condition
    #[arg(long)]
    all: bool,
    /// Print the change as JSON
    #[arg(long)]
    json: bool,
}

/// Rights to set; those not given stay unchanged.
#[derive(Args)]
struct RightsArgs {
    /// Allow live viewing
    #[arg(long, value_name = "on|off", value_parser = switch)]
    live: Option<bool>,
    /// Allow catch-up
    #[arg(long, value_name = "on|off", value_parser = switch)]
    catchup: Option<bool>,
    /// Number of days that catch-up is available
    #[arg(long, value_name = "DAYS")]
    catchup_days: Option<u16>,
    /// Allow restarting the running broadcast
    #[arg(long, value_name = "on|off", value_parser = switch)]
    start_over: Option<bool>,
    /// Allow pausing
    #[arg(long, value_name = "on|off", value_parser = switch)]
    pause: Option<bool>,
    /// Allow rewinding
    #[arg(long, value_name = "on|off", value_parser = switch)]
    rewind: Option<bool>,
    /// Allow fast-forwarding
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
    /// Uses the member names of catalogue files, as the interface does.
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

fn object(members: &[(&str, Value)]) -> Map<String, Value> {
    let given = members.iter().filter(|(_, value)| !value.is_null());
    given
        .map(|(name, value)| ((*name).to_owned(), value.clone()))
        .collect()
}

fn table(members: Map<String, Value>) -> Value {
    match members.is_empty() {
        true => Value::Null,
        false => Value::Object(members),
    }
}

impl AddRule {
    /// `now` is what "today" and spans count from.
    fn body(&self, now: i64) -> Value {
        let end = |text: &Option<String>| json!(text.as_deref().map(|text| in_utc(text, now)));
        let window = object(&[("from", end(&self.from)), ("to", end(&self.to))]);
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
        body.extend(self.rights.body());
        Value::Object(body)
    }
}

/// Returns a date in UTC, as rules store it. A time of every day, and text that is no time, stay unchanged: the server judges them.
fn in_utc(text: &str, now: i64) -> String {
    let at = match text.parse() {
        Err(_) | Ok(TimeArg::Local(Day::Last, _)) => None,
        Ok(time) => chrono::DateTime::from_timestamp(time.at(now), 0),
    };
    at.map_or_else(
        || text.to_owned(),
        |at| at.to_rfc3339_opts(SecondsFormat::Secs, true),
    )
}

pub(crate) async fn run(command: RightsCommand, global: &Global) -> CommandResult {
    let mut admin = global.admin().await?;
    match command {
        RightsCommand::Change(SetRights {
            scope,
            rights,
            json,
        }) => {
            let broadcast = scope.broadcast.or(scope.named_broadcast);
            let target = match (&scope.livestream, &broadcast) {
                (Some(livestream), None) => path(&["livestreams", livestream, "rights"]),
                (None, Some(broadcast)) => path(&["broadcasts", broadcast, "rights"]),
                // The argument group allows exactly one.
                _ => return Err(Failure::usage("name a livestream or a broadcast")),
            };
            let body = Value::Object(rights.body());
            change(&mut admin, Method::PUT, &target, Some(&body), json).await
        }
        RightsCommand::Remove { broadcast, json } => {
            let target = path(&["broadcasts", &broadcast, "rights"]);
            change(&mut admin, Method::DELETE, &target, None, json).await
        }
    }
}

pub(crate) async fn run_rule(command: RuleCommand, global: &Global) -> CommandResult {
    let mut admin = global.admin().await?;
    match command {
        RuleCommand::List { json } => {
            let rules = admin.get(&path(&["rules"])).await?;
            output::list(&rules, &[("NUMBER", "number"), ("RULE", "text")], json)
        }
        RuleCommand::Add(add) => {
            let accept = add.all.then_some("true");
            let target = with_query(path(&["rules"]), &[("accept", accept)]);
            let body = add.body(server_time(&mut admin).await?);
            let added = change(&mut admin, Method::POST, &target, Some(&body), add.json).await;
            added.map_err(|failure| match failure.is_code("IMPORT_HELD") {
                true => failure.hint(
                    "give the rule a condition such as `--livestream`; `--all` adds it as it is",
                ),
                false => failure,
            })
        }
        RuleCommand::Remove { number, json } => {
            let target = path(&["rules", &number.to_string()]);
            change(&mut admin, Method::DELETE, &target, None, json).await
        }
    }
}

async fn change(
    admin: &mut Admin,
    method: Method,
    target: &str,
    body: Option<&Value>,
    json: bool,
) -> CommandResult {
    let report = admin.call(method, target, body).await?;
    // One change, or none.
    catalog::show(&report, true, json)
}

/// Runs `playgate epg why`: prints every default, rule and override for a broadcast and which of them
/// decides each right.
pub(crate) async fn why(global: &Global, broadcast: &str, json: bool) -> CommandResult {
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
            passed.push(format!("{by} ({})", output::text(layer, "mismatch")));
            continue;
        }
        let effects = match layer.get("rule") {
            Some(_) => output::text(layer, "rule"),
            None => said(layer.get("effects")),
        };
        output::line(&format!("{by:<11} {effects}"))?;
    }
    if !passed.is_empty() {
        output::line(&format!("no match    {}", passed.join(", ")))?;
    }
    output::line("")?;
    let columns = [("RIGHT", "right"), ("VALUE", "value"), ("BY", "by")];
    let mut rights = why.get("rights").cloned().unwrap_or_default();
    for value in rights.as_array_mut().into_iter().flatten() {
        value["value"] = switched(&value["value"]).into();
    }
    output::list(&rights, &columns, false)?;
    let live = match why.get("liveAvailable") {
        Some(Value::Bool(true)) => "live viewing allowed",
        _ => "live viewing not allowed",
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

fn said(effects: Option<&Value>) -> String {
    let members = effects.and_then(Value::as_object).into_iter().flatten();
    let mut words = Vec::new();
    for (name, value) in members {
        match value.as_object() {
            Some(within) => words.extend(
                within
                    .iter()
                    .map(|(name, value)| format!("{name} {}", switched(value))),
            ),
            None => words.push(format!("{name} {}", switched(value))),
        }
    }
    words.join(", ")
}

/// A right as the options set it: on or off, or a number.
fn switched(value: &Value) -> String {
    match value {
        Value::Bool(true) => "on".to_owned(),
        Value::Bool(false) => "off".to_owned(),
        other => output::cell("", Some(other)),
    }
}

fn clock(why: &Value, member: &str) -> String {
    clock_in(why, member, &output::text(why, "zone"))
}

fn clock_in(value: &Value, member: &str, zone: &str) -> String {
    let at = value.get(member).and_then(Value::as_i64);
    let utc = at.and_then(|at| chrono::DateTime::from_timestamp(at, 0));
    match (utc, zone.parse::<playgate_types::Zone>()) {
        (Some(utc), Ok(zone)) => {
            let local = utc.with_timezone(&zone);
            local.format("%Y-%m-%d %H:%M:%S %:z").to_string()
        }
        _ => output::text(value, member),
    }
}

#[cfg(test)]
mod tests {
    use super::in_utc;

    #[test]
    fn a_date_of_a_rule_is_sent_in_utc_and_a_time_of_every_day_stays() {
        for (text, sent) in [
            ("18:00", "18:00"),
            ("2026-12-24 18:00", "2026-12-24T18:00:00Z"),
            ("2026-12-24T18:00:00+01:00", "2026-12-24T17:00:00Z"),
            ("noon", "noon"),
        ] {
            assert_eq!(in_utc(text, 0), sent);
        }
    }
}
